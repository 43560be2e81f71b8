"""Resource variables: which of them are states of a run, and which are weights under another name."""

from __future__ import annotations

from sizeup.formats.tflite.node import Node


class Variables:
    """The variables of a file by their shared names, over all of its subgraphs."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def initial_states(self, nodes: list[Node], *, is_main: bool) -> set[int]:
        """Tensors whose content a variable starts from, where every run writes that variable anew.

        A variable that the main graph only reads holds trained weights, put there before the first run.
        """
        names = {
            node.outputs[0]: shared_name(node)
            for node in nodes
            if node.source == "VAR_HANDLE" and node.outputs
        }
        assignments = [
            (names[node.inputs[0]], node.inputs[1])
            for node in nodes
            if node.source == "ASSIGN_VARIABLE" and len(node.inputs) == 2 and node.inputs[0] in names
        ]
        if is_main:
            self._written.update(name for name, _ in assignments)
        return {value for name, value in assignments if name in self._written}


def shared_name(node: Node) -> str:
    """The name under which all subgraphs know the variable that a handle stands for."""
    options = node.options("VarHandleOptions")
    if options is None:
        return ""
    label = node.model.limits.label
    return f"{label(options.Container())}/{label(options.SharedName())}"
