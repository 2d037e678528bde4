"""Import contracts that find agents and backends by themselves, as contract types of import-linter.

Its own types are given names, or wildcards that take files and folders alike. Here a folder is what
counts: each agent and each backend is one, and what stands in files beside them is shared. So a new
agent is held to every contract from its first line, and nobody has to remember a list.
Seen in import-linter 2.16, whose fields these build on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.domain.helpers import module_expressions_to_modules
from importlinter.domain.imports import ModuleExpression

_NO_FOLDERS = "no folder is there for {}: a contract that holds for nothing is a mistake"


def folders_in(graph: ImportGraph, expressions: Iterable[ModuleExpression]) -> list[str]:
    """Return those of the modules matched that hold others; ValueError where none does."""
    found = {
        module.name
        for module in module_expressions_to_modules(graph, expressions)
        if graph.find_children(module.name)
    }
    if not found:
        raise ValueError(_NO_FOLDERS.format(", ".join(sorted(map(str, expressions)))))
    return sorted(found)


class FoldersApart(IndependenceContract):
    """`modules`: the folders matched do not know each other, not even through a shared file.

    `shared` are folders among them that the others are made with; what these may not know is a
    contract of their own.
    """

    type_name = "folders_apart"
    shared = fields.SetField(subfield=fields.StringField(), required=False, default=set())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  # theirs
        """Return whether no folder reaches another."""
        found = set(folders_in(graph, self.modules)).difference(self.shared or ())
        self.modules = {ModuleExpression(each) for each in found}
        return super().check(graph, verbose)


class FoldersForbidden(ForbiddenContract):
    """`source_modules` reach no other folder that `forbidden_modules` matches, nor indirectly."""

    type_name = "folders_forbidden"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  # theirs
        """Return whether none is reached."""
        names = [  # each expression by itself, so that one which matches nothing is noticed
            name for each in self.forbidden_modules for name in folders_in(graph, [each])
        ]
        own = {str(each) for each in self.source_modules}
        self.forbidden_modules = [ModuleExpression(name) for name in names if name not in own]
        return super().check(graph, verbose)


def cycle_in(graph: ImportGraph) -> Sequence[str]:
    """Return modules that import each other in a circle, the first named again last; else none."""
    order = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    try:
        TopologicalSorter(order).prepare()
    except CycleError as found:
        circle: Sequence[str] = found.args[1]
        return circle
    return ()


class NoCycle(Contract):
    """No module imports, over others, itself; imports within functions count as well.

    `acyclic_siblings` of import-linter looks at folders: two that use files of each other are not
    a cycle of anything that is loaded.
    """

    type_name = "no_cycle"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  # theirs
        """Return whether there is none."""
        circle = cycle_in(graph)
        return ContractCheck(kept=not circle, metadata={"circle": circle})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one circle, each module before the one that imports it."""
        output.print_error(" <- ".join(check.metadata["circle"]))
        output.new_line()


class OnlyAllowed(Contract):
    """`package` imports itself and `allowed_modules`, and nothing else there is.

    A list of what is forbidden forgets: `tempfile` reads the clock and the disk as `time` and `os`
    do. What is allowed is written down instead, the standard library's modules too.
    """

    type_name = "only_allowed"

    package = fields.StringField()
    allowed_modules = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  # theirs
        """Return whether each import is allowed, with those that are not, and where they stand."""
        inside = {self.package, *graph.find_descendants(self.package)}
        found = [
            (importer, imported)
            for importer in sorted(inside)
            for imported in sorted(graph.find_modules_directly_imported_by(importer) - inside)
            if imported not in self.allowed_modules
        ]
        lines = [
            f"{importer}:{detail['line_number']} imports {imported}"
            for importer, imported in found
            for detail in graph.get_import_details(importer=importer, imported=imported)
        ]
        return ContractCheck(kept=not found, metadata={"lines": lines})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each import that is not allowed."""
        for line in check.metadata["lines"]:
            output.print_error(line)
        output.new_line()
