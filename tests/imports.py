"""Contracts for import-linter: what packages may import from outside, and how large circles of files may be."""

from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowedImports(Contract):
    """`source_packages` import no module from outside of their root package but `allowed_modules`."""

    source_packages = cast("list[str]", fields.ListField(subfield=fields.StringField()))
    allowed_modules = cast("set[str]", fields.SetField(subfield=fields.StringField()))

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        root = self.session_options["root_packages"][0]
        excess = sorted(
            (importer, imported)
            for package in self.source_packages
            for importer in {package, *graph.find_descendants(package)}
            for imported in graph.find_modules_directly_imported_by(importer)
            if imported.partition(".")[0] != root and imported.partition(".")[0] not in self.allowed_modules
        )
        return ContractCheck(kept=not excess, metadata={"excess": excess})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["excess"]:
            output.print_error(f"{importer} imports {imported}, which is not listed")


class SmallCircles(Contract):
    """No more than `most` modules import each other in a circle, imports for types only included."""

    most = cast("int", fields.IntegerField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        upstream = {module: graph.find_upstream_modules(module) for module in graph.modules}
        circles = {
            frozenset({module, *(each for each in upstream[module] if module in upstream[each])}) for module in upstream
        }
        large = sorted(sorted(circle) for circle in circles if len(circle) > self.most)
        return ContractCheck(kept=not large, metadata={"large": large})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for circle in check.metadata["large"]:
            output.print_error(f"{len(circle)} modules import each other: {', '.join(circle)}")
