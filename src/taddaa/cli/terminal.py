"""What only a shell needs: completion scripts."""

import argparse


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
