"""What each command does; it returns the exit code. What a command needs is imported when it runs, so that help is quick."""

import argparse
import sys

from ..experiments import STUDIES
from .interrupts import NOTHING_WRITTEN, interrupts_leave
from .output import (
    DOUBTFUL,
    FINE,
    FOUND,
    WRONG_USE,
    check_writable,
    code_of,
    diagnosed,
    page_of,
    print_report,
    prints_to_stderr,
    refuse_clashes,
    say,
    to_stdout,
    write,
    write_draws,
)
from .parser import SETTINGS, parser


def demo(chosen: argparse.Namespace) -> int:
    from .demo import INTRODUCTION, closing, problem

    refuse_clashes(**{"--json": chosen.json, "--html": chosen.html})
    wordy = not chosen.quiet and not to_stdout(chosen.json)
    if wordy:
        say(INTRODUCTION)
    report = diagnosed(chosen, problem(), chosen.seed)
    if wordy:
        say(f"\n{closing(report)}")
    return FINE


def run(chosen: argparse.Namespace) -> int:
    from dataclasses import replace

    from .problem_file import load_problem

    refuse_clashes(
        **{
            "FILE.py": chosen.file,
            "--json": chosen.json,
            "--html": chosen.html,
            "--checkpoint": chosen.checkpoint,
            "--repair": chosen.repair,
        }
    )
    with prints_to_stderr():
        arguments = load_problem(chosen.file)
    changes = {key: getattr(chosen, key) for key in SETTINGS if getattr(chosen, key) is not None}
    from ..settings import Settings, as_settings

    if chosen.paper:
        arguments["settings"] = Settings.paper(**changes)
    elif changes:
        arguments["settings"] = replace(as_settings(arguments.get("settings")), **changes)
    if chosen.tolerance is not None:
        arguments["tolerance"] = chosen.tolerance
    if chosen.var_names is not None:
        arguments["var_names"] = chosen.var_names
    in_file = arguments.pop("seed", 0)
    if chosen.glance:
        return _glance(chosen, arguments, in_file if chosen.seed is None else chosen.seed)
    arguments["checkpoint"] = chosen.checkpoint
    if chosen.certify or chosen.repair is not None:
        arguments["certify"] = True
    check_writable(chosen.repair)
    report = diagnosed(chosen, arguments, in_file if chosen.seed is None else chosen.seed)
    found = code_of(report, chosen.fail_above or 0.0)
    return found if chosen.repair is None or write_draws(report, chosen.repair) else max(found, DOUBTFUL)


def _glance(chosen: argparse.Namespace, arguments: dict, seed: int) -> int:
    """A first look only; it proves nothing, so it fails nothing."""
    from ..errors import InputError
    from ..glancing import glance

    for name in ("html", "checkpoint", "fail_above", "repair", "certify"):
        if getattr(chosen, name) not in (None, False):
            raise InputError(f"--{name.replace('_', '-')} does not go with --glance: a first look has no page, no chains and no bounds")
    check_writable(chosen.json)
    with interrupts_leave(NOTHING_WRITTEN), prints_to_stderr():
        taken = ("target", "approximation", "functionals", "settings", "tolerance", "data", "var_names")
        found = glance(**{key: arguments[key] for key in taken if key in arguments}, seed=seed, progress=False if chosen.quiet else None)
    if chosen.json is not None:
        write(chosen.json, found.to_json())
    if not chosen.quiet and not to_stdout(chosen.json):
        say(str(found))
    return FINE


def show(chosen: argparse.Namespace) -> int:
    from ..report.report import Report

    refuse_clashes(**{"REPORT.json": chosen.file, "--html": chosen.html})
    report = Report.from_json(chosen.file)
    if chosen.var_names is not None:
        report = report.select(chosen.var_names)
    if chosen.html is None:
        print_report(report)
    else:
        write(chosen.html, page_of(report))
    return FINE if chosen.fail_above is None else code_of(report, chosen.fail_above)


def compare(chosen: argparse.Namespace) -> int:
    from ..report.refit import changes, changes_text, got_worse
    from ..report.report import Report
    from ..verdict.outcome import UNTRUSTED

    before, after = Report.from_json(chosen.before), Report.from_json(chosen.after)
    found = changes(before, after)
    threshold = chosen.fail_above or 0.0
    if not chosen.quiet:
        say(changes_text(before, after, found, threshold))
    if got_worse(found, threshold):
        return FOUND
    return DOUBTFUL if any(row.verdict == UNTRUSTED for row in after.rows) else FINE


def reproduce(chosen: argparse.Namespace) -> int:
    from ..errors import InputError, MissingExtra
    from ..experiments import load
    from ..experiments.run import claims_text, reproduce

    check_writable(chosen.page)
    tell = (lambda line: None) if chosen.quiet else (lambda line: print(line, file=sys.stderr, flush=True))
    code = FINE
    for name in STUDIES if chosen.name == "all" else [chosen.name]:
        try:
            with interrupts_leave(f"what was measured is kept in {chosen.out}, run the same command to go on"):
                found = reproduce(load(name), chosen.out, chosen.quick, tell)
        except (InputError, MissingExtra) as error:  # such as data that cannot be had: the other studies can still be run
            print(f"taddaa: {name}: {error}", file=sys.stderr)
            code = WRONG_USE
            continue
        if not chosen.quiet:
            say(claims_text(found))
    if chosen.page is not None:
        from ..experiments.page import write_page

        write_page(chosen.out, chosen.page, chosen.quick)
    return code


def completion(chosen: argparse.Namespace) -> int:
    from .terminal import completion_script

    say(completion_script(parser(), chosen.shell))
    return FINE
