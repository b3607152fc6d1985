"""Builds the compiled core. Everything else about the project stands in pyproject.toml.

Read from the environment, each off unless given:
LOGSTORE_BUILD_DEBUG=1       -O1 and debug symbols.
LOGSTORE_BUILD_STRICT=1      every warning of Cython and C is an error; own build directory.
LOGSTORE_BUILD_SANITIZE=1    -O1, lines of the .pyx in reports, and AddressSanitizer and UndefinedBehaviorSanitizer,
                             which end the process at the first finding; another list of sanitizers may stand in
                             place of the 1 (thread). Own build directory; `make sanitize` runs what it gives.
LOGSTORE_BUILD_EXTENSIONS=0  no extensions, for an editable install that `build_ext --inplace` completes.
LOGSTORE_BUILD_ABI3=3.12      against the stable ABI of that Python: one wheel for it and for every later one,
                             slower by what the stable ABI costs. Own build directory.
LOGSTORE_BUILD_JOBS=N        N processes translate Cython to C.
LOGSTORE_BUILD_PAGES=URL     where the repository's files are published: links of the long description lead there.
                             Without it they become text with the path in the source distribution.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup

PACKAGE = Path("src/logstore")
DEBUG = os.environ.get("LOGSTORE_BUILD_DEBUG") == "1"
STRICT = os.environ.get("LOGSTORE_BUILD_STRICT") == "1"
ABI3 = [int(part) for part in os.environ.get("LOGSTORE_BUILD_ABI3", "").split(".") if part]
SANITIZERS = {"0": "", "1": "address,undefined"}.get(
    os.environ.get("LOGSTORE_BUILD_SANITIZE", "0"), os.environ.get("LOGSTORE_BUILD_SANITIZE", "")
)

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
    *(["-O1", "-g"] if DEBUG or SANITIZERS else ["-O3", "-g0", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]),
    *(["-Werror"] if STRICT else []),
    # There Cython leaves a docstring of each __iter__ over; what the stable ABI lacks would show at import only.
    *(["-Wno-unused-const-variable", "-Werror=implicit-function-declaration"] if ABI3 else []),
    *(["-include", str(PACKAGE / "_limited.h")] if ABI3 else []),
]
LINK_ARGS = ["-Wl,-z,relro,-z,now", *([] if DEBUG or SANITIZERS else ["-Wl,-s"])]
if SANITIZERS:
    # Python's own flags let a sum wrap around, and a fortified call is checked by libc: with either the
    # sanitizers would see nothing there.
    COMPILE_ARGS += [f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    COMPILE_ARGS += ["-fno-wrapv", "-fstrict-overflow", "-U_FORTIFY_SOURCE"]
    LINK_ARGS += [f"-fsanitize={SANITIZERS}"]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "autotestdict": False,
    "auto_pickle": False,
    # Annotations are for readers of help(); the types of C stand before the names.
    "annotation_typing": False,
    "embedsignature": False,
}


def extensions() -> list[Extension]:
    """One extension for each `.pyx` of the package."""
    if os.environ.get("LOGSTORE_BUILD_EXTENSIONS") == "0":
        return []
    sources = {".".join(path.relative_to("src").with_suffix("").parts): path for path in PACKAGE.rglob("*.pyx")}
    if SANITIZERS:
        # Faults on purpose, which the sanitizers have to report; in no wheel.
        sources["logstore_planted"] = Path("tests/sanitize/planted.pyx")
    return [
        Extension(
            name,
            [str(source)],
            include_dirs=[str(PACKAGE)],
            define_macros=[("Py_LIMITED_API", f"0x{ABI3[0]:02x}{ABI3[1]:02x}0000")] if ABI3 else [],
            py_limited_api=bool(ABI3),
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=LINK_ARGS,
            depends=[str(header) for header in sorted(PACKAGE.rglob("_*.h")) + sorted(PACKAGE.rglob("*.pxd"))],
        )
        for name, source in sorted(sources.items())
    ]


def description(readme: str, pages: str) -> str:
    """Return the long description: the README, without links that lead nowhere on a package index.

    ``pages`` is the address below which the files are published, "" if there is none.
    """

    def without_relative_link(found: re.Match[str]) -> str:
        text, target = found["text"], found["target"]
        if pages:
            return f"[{text}]({pages.rstrip('/')}/{target})"
        path = f"`{target.partition('#')[0]}`"
        return path if f"`{text}`" == path else f"{text} ({path})"

    link = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?![a-z]+:|#)(?P<target>[^()\s]+)\)")
    # Every second part is a block of code, where brackets are no link.
    parts = re.split(r"(^```.*?^```$)", readme, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [link.sub(without_relative_link, part) for part in parts[::2]]
    note = "" if pages else "\nPaths on this page are those of the source distribution.\n"
    return "".join(parts) + note


# Cython translates only what has changed, so a file that has warned once would pass from then on:
# a strict build keeps generated C of its own, which exists only where nothing was to be warned of.
Options.warning_errors = STRICT
KIND = "strict/" if STRICT else "sanitize/" if SANITIZERS else "abi3/" if ABI3 else ""

setup(
    long_description=description(Path("README.md").read_text("utf-8"), os.environ.get("LOGSTORE_BUILD_PAGES", "")),
    long_description_content_type="text/markdown",
    ext_modules=cythonize(
        extensions(),
        build_dir=f"build/{KIND}cython",
        emit_linenums=bool(SANITIZERS),
        include_path=["src"],
        compiler_directives=DIRECTIVES,
        nthreads=int(os.environ.get("LOGSTORE_BUILD_JOBS", "0")),
    ),
    options={"bdist_wheel": {"py_limited_api": f"cp{ABI3[0]}{ABI3[1]}"}} if ABI3 else {},
)
