"""Builds the compiled core. Everything else about the project stands in pyproject.toml.

Read from the environment, each off unless given:
LOGSTORE_BUILD_DEBUG=1       -O1 and debug symbols.
LOGSTORE_BUILD_STRICT=1      every warning of Cython and C is an error; own build directory.
LOGSTORE_BUILD_EXTENSIONS=0  no extensions, for an editable install that `build_ext --inplace` completes.
LOGSTORE_BUILD_JOBS=N        N processes translate Cython to C.
"""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup

PACKAGE = Path("src/logstore")
DEBUG = os.environ.get("LOGSTORE_BUILD_DEBUG") == "1"
STRICT = os.environ.get("LOGSTORE_BUILD_STRICT") == "1"

COMPILE_ARGS = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    # Three habits of the C that Cython writes, none of them about our code.
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
    "-Wno-cast-function-type",
    "-fstack-protector-strong",
    "-fvisibility=hidden",
    *(["-O1", "-g"] if DEBUG else ["-O3", "-g0", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]),
    *(["-Werror"] if STRICT else []),
]
LINK_ARGS = ["-Wl,-z,relro,-z,now", *([] if DEBUG else ["-Wl,-s"])]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "autotestdict": False,
    "auto_pickle": False,
    "embedsignature": False,
}


def extensions() -> list[Extension]:
    """One extension for each `.pyx` of the package."""
    if os.environ.get("LOGSTORE_BUILD_EXTENSIONS") == "0":
        return []
    return [
        Extension(
            ".".join(source.relative_to("src").with_suffix("").parts),
            [str(source)],
            include_dirs=[str(PACKAGE)],
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=LINK_ARGS,
            depends=[str(header) for header in sorted(PACKAGE.glob("_*.h")) + sorted(PACKAGE.glob("*.pxd"))],
        )
        for source in sorted(PACKAGE.rglob("*.pyx"))
    ]


# Cython translates only what has changed, so a file that has warned once would pass from then on:
# a strict build keeps generated C of its own, which exists only where nothing was to be warned of.
Options.warning_errors = STRICT

setup(
    ext_modules=cythonize(
        extensions(),
        build_dir="build/strict/cython" if STRICT else "build/cython",
        include_path=["src"],
        compiler_directives=DIRECTIVES,
        nthreads=int(os.environ.get("LOGSTORE_BUILD_JOBS", "0")),
    )
)
