"""The command line: parse, call, show. One module a command.

Exit codes: 0 done; 1 some of many inputs failed, two models differ, or the reader of a pipe went away; 2 bad input,
told in one line; 3 a comparison that was asked for proves nothing, or a certificate not all; 130 interrupted.
"""

from __future__ import annotations

import sys

import click

from eqsat.cli.calibrate import calibrate
from eqsat.cli.check import check
from eqsat.cli.compare import compare
from eqsat.cli.equal import equal
from eqsat.cli.interrupt import Interrupted, ending_at_interrupts
from eqsat.cli.optimize import optimize
from eqsat.cli.optimize_all import optimize_all
from eqsat.cli.partition import partition
from eqsat.cli.rules import rules
from eqsat.cli.show import show
from eqsat.cli.terminal import buffer_output, keep_libraries_quiet, write_no_more
from eqsat.cli.variants import variants
from eqsat.errors import EqsatError
from eqsat.extraction.__main__ import main as extract
from eqsat.relay.literal import visible
from eqsat_command.memory import end_out_of_memory, is_out_of_memory

_LONGEST = 1000
"""Characters of an error that are told: names in models may be of any length."""


def main() -> None:
    """Run the command line; errors are one line on stderr and exit code 2, an interrupt is exit code 130."""
    keep_libraries_quiet()
    buffer_output()
    try:
        with ending_at_interrupts():
            code = cli(prog_name="eqsat", standalone_mode=False) or 0
            sys.stdout.flush()
        sys.exit(code)
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "eqsat"
        _fail(f"{command}: {' '.join(error.format_message().split())}", error.exit_code)
    except (click.Abort, Interrupted, KeyboardInterrupt):
        _fail("eqsat: interrupted, nothing is written", 130)
    except EqsatError as error:
        if is_out_of_memory(error):  # not the fault of what was read or loaded then
            end_out_of_memory()
        _fail(f"eqsat: {' '.join(str(error).split())}", 2)
    except RecursionError:
        _fail("eqsat: the model nests too deeply", 2)
    except BrokenPipeError:  # whoever read our output has seen enough
        write_no_more()
        sys.exit(1)
    except OSError as error:  # those of files are told by who opens them
        if is_out_of_memory(error):
            raise
        write_no_more()
        _fail(f"eqsat: cannot write to {error.filename or 'standard output'}: {error.strerror or error}", 2)


def _fail(message: str, code: int) -> None:
    message = visible(message)
    click.echo(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="eqsat")
def cli() -> None:
    """Equality saturation for tensor-compiler graphs.

    Completion for a shell: eval "$(_EQSAT_COMPLETE=bash_source eqsat)", or zsh_source, fish_source.
    """


for command in (optimize, optimize_all, calibrate, check, partition, compare, equal, variants, show, rules):
    cli.add_command(command)
cli.add_command(extract, "extract")
