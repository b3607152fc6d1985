"""What tests of every folder share: logs and stores looked at from outside, waiting, and things to feed them."""
