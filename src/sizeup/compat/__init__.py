"""The commands and functions of older tools, each a thin face over the verbs of sizeup.

A face translates arguments and renders; what it counts by another convention than ours it says once, with the
right number beside it. docs/coming-from.md lists what differs, and why.
"""
