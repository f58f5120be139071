"""What only a terminal needs: one line of progress, and completion scripts."""

import argparse
import shutil
import threading
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from ..chains.walk import Progress

QUIET_SECONDS = 2.0  # shorter work needs no progress
REDRAW_SECONDS = 0.2


class ProgressLine:
    """A context that shows one line on a terminal once work takes longer than two seconds; call it with a `Progress`.

    What the first look says stands above it.
    """

    def __init__(self, stream: TextIO, planned: str = "", patience: float = QUIET_SECONDS):
        self._stream, self._planned, self._patience = stream, planned, patience
        self._latest: Progress | None = None
        self._stop = threading.Event()
        self._shown, self._look, self._look_shown = False, "", False
        self._thread = threading.Thread(target=self._draw_until_stopped, daemon=True)

    def __call__(self, progress: "Progress") -> None:
        self._latest = progress
        self._look = progress.look or self._look

    def __enter__(self) -> "ProgressLine":
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()
        if self._shown:
            self._stream.write("\r\033[K" + "\033[1A\033[K" * self._look_shown)
            self._stream.flush()

    def _draw_until_stopped(self) -> None:
        wait = self._patience
        while not self._stop.wait(wait):
            wait = REDRAW_SECONDS
            seconds = time.monotonic() - self._started
            width = shutil.get_terminal_size().columns
            if self._look and not self._look_shown:  # a line of its own above the one that is drawn again and again
                self._stream.write("\r\033[K" + self._look[: width - 1] + "\n")
                self._look_shown = True
            self._stream.write("\r\033[K" + line(self._latest, seconds, self._planned)[: width - 1])
            self._stream.flush()
            self._shown = True


def line(progress: "Progress | None", seconds: float, planned: str = "") -> str:
    """What is going on, in one line."""
    if progress is None or not progress.iteration:
        return f"{planned}{', ' * bool(planned)}compiling … {seconds:.0f} s"
    done = progress.iteration / max(progress.planned, 1)
    bar = "█" * round(20 * done) + "░" * (20 - round(20 * done))
    return (
        f"{progress.stage} {bar} {progress.iteration}/{progress.planned} iterations, "
        f"{progress.acceptance:.0%} accepted, ρ² {progress.rho2:.2f}, {seconds:.0f} s"
    )


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Completion of commands, options, choices and file names, for bash, zsh or fish."""
    commands = _commands(parser)
    return _fish(commands) if shell == "fish" else _bash(commands, zsh=shell == "zsh")


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    action = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def _bash(commands: dict[str, argparse.ArgumentParser], zsh: bool) -> str:
    # zsh reads bash's completions once both of its own systems are loaded.
    loaded = ["(( $+functions[compdef] )) || { autoload -U compinit && compinit }", "autoload -U +X bashcompinit && bashcompinit"]
    lines = loaded if zsh else []
    lines += ["_taddaa() {", '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"', "  COMPREPLY=()"]
    lines += [
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word")); return',
        "  fi",
    ]
    lines += ['  case "${COMP_WORDS[1]} $before" in']
    for name, command in commands.items():
        for action in command._actions:
            if action.choices:
                spelled = action.option_strings or [name]
                lines += [
                    f'    "{name} {option}") COMPREPLY=($(compgen -W "{" ".join(action.choices)}" -- "$word")); return;;'
                    for option in spelled
                ]
    lines += ["  esac", '  case "${COMP_WORDS[1]}" in']
    for name, command in commands.items():
        options = " ".join(option for action in command._actions for option in action.option_strings if option.startswith("--"))
        lines.append(f'    {name}) [[ "$word" == -* ]] && COMPREPLY=($(compgen -W "{options}" -- "$word"));;')
    lines += ["  esac", "}", "complete -o default -F _taddaa taddaa"]
    return "\n".join(lines)


def _fish(commands: dict[str, argparse.ArgumentParser]) -> str:
    lines = []
    for name, command in commands.items():
        about = (command.description or "").replace("'", "\\'")
        lines.append(f"complete -c taddaa -n __fish_use_subcommand -f -a {name} -d '{about}'")
        for action in command._actions:
            option = next((option[2:] for option in action.option_strings if option.startswith("--")), None)
            choices = f" -x -a '{' '.join(action.choices)}'" if action.choices else "" if action.nargs == 0 else " -r"
            on = f"complete -c taddaa -n '__fish_seen_subcommand_from {name}'"
            if option:
                lines.append(f"{on} -l {option}{choices} -d '{(action.help or '').replace(chr(39), chr(92) + chr(39))}'")
            elif action.choices:
                lines.append(f"{on}{choices}")
    return "\n".join(lines)
