from typing_extensions import disjoint_base

@disjoint_base
class SharedBlock:
    """Two copies of a block at the start of a file."""
