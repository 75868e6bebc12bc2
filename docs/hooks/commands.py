"""The page of the command line, made of what ``--help`` prints."""

from __future__ import annotations

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from eqsat import cli


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    codes = [f"| {code} | {what} |" for code, what in cli.EXIT_CODES.items()]
    parts = ["# Command line\n", "| exit code | meaning |\n|---|---|", *codes, ""]
    with click.Context(cli.cli, info_name="eqsat") as context:
        for name in cli.cli.list_commands(context):
            cli.load_command(name)
            parts += _help(cli.cli.commands[name], f"eqsat {name}", context)
    files.append(File.generated(config, "commands.md", content="\n".join(parts)))
    return files


def _help(command: click.Command, name: str, parent: click.Context) -> list[str]:
    context = click.Context(command, info_name=name, parent=None)
    parts = [f"## {name}\n", f"```text\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for each, inner in sorted(command.commands.items()):
            parts += _help(inner, f"{name} {each}", context)
    return parts
