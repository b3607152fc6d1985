"""Inputs of pipelines other than topics, and the handling of values that do not fit."""
