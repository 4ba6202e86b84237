# SPDX-License-Identifier: Apache-2.0
# Completion of profctl for bash. Verbs and options come from profctl's own --help, so that there is one list of them; ids
# come from profd, if one answers.

_profctl_verbs() {
    profctl help 2>/dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z-]*\).*/\1/p'
}

# Options of a verb, or of profctl itself where there is none yet.
_profctl_options() {
    profctl "$@" --help 2>/dev/null | grep -oE '^ +(-[a-z0-9], )?--[a-z-]+' | grep -oE -- '--[a-z-]+'
}

# Whether an option takes a value: its line in --help names one.
_profctl_takes_value() {
    profctl ${1:+"$1"} --help 2>/dev/null | grep -qE -- "(^| )$2 [A-Z]"
}

_profctl_ids() {
    case $1 in
        t | st) profctl list-traces --no-legend --quiet 2>/dev/null | awk '{print $1}' ;;
    esac
    case $1 in
        s | st) profctl list-sessions --no-legend --quiet 2>/dev/null | awk '{print $1}' ;;
    esac
}

_profctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb= i
    COMPREPLY=()

    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            --socket | --host) ((i++)) ;;
            -*) ;;
            *)
                verb=${COMP_WORDS[i]}
                break
                ;;
        esac
    done

    case $prev in
        --socket | --router-log | --output | -o)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
            ;;
        --directory | -d | --trace-dir)
            if [[ $prev != -d || $verb == get ]]; then
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                return
            fi
            ;;
        --session | -s)
            mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids s)" -- "$cur")
            return
            ;;
        --role)
            mapfile -t COMPREPLY < <(compgen -W 'prefill decode regular encode' -- "$cur")
            return
            ;;
        --state)
            mapfile -t COMPREPLY < <(compgen -W 'active requested starting recording stopping collecting complete partial failed
                cancelled' -- "$cur")
            return
            ;;
    esac

    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_profctl_options $verb)" -- "$cur")
    elif [[ $prev == --* ]] && _profctl_takes_value "$verb" "$prev"; then
        return
    elif [[ -z $verb || $verb == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_profctl_verbs)" -- "$cur")
    else
        case $verb in
            status | stop) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids s)" -- "$cur") ;;
            open) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids t)" -- "$cur") ;;
            show | get | rm | pin | unpin) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids st)" -- "$cur") ;;
        esac
    fi
}

complete -F _profctl profctl
