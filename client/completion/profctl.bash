# SPDX-License-Identifier: Apache-2.0
# Completion of profctl for bash. Verbs and options come from profctl's own --help, so that there is one list of them; ids
# come from profd, if one answers.

_profctl_verbs() {
    profctl help 2>/dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z-]*\).*/\1/p'
}

# Options of a verb, or of profctl itself where there is none yet.
_profctl_options() {
    profctl "$@" --help 2>/dev/null | grep -oE '^ +(-[A-Za-z0-9], )?--[a-z-]+' | grep -oE -- '--[a-z-]+'
}

# Whether an option takes a value: its line in --help names one.
_profctl_takes_value() {
    profctl ${1:+"$1"} --help 2>/dev/null | grep -qE -- "(^| )$2 [A-Z]"
}

_profctl_ids() {
    case $1 in
        t | st | str) profctl list-traces --no-legend --quiet 2>/dev/null | awk '{print $1}' ;;
    esac
    case $1 in
        s | st | sr | str) profctl list-sessions --no-legend --quiet 2>/dev/null | awk '{print $1}' ;;
    esac
    case $1 in
        r | sr | str) profctl list-runs --no-legend --quiet 2>/dev/null | awk '{print $1}' ;;
    esac
}

_profctl_units() {
    systemctl $([[ $1 == --user-unit ]] && echo --user) list-units --type=service --plain --no-legend "$2*" 2>/dev/null | awk '{print $1}'
}

_profctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb= i
    COMPREPLY=()

    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            --socket | --host | --token-file | --cacert | --cert | --key) ((i++)) ;;
            -*) ;;
            *)
                verb=${COMP_WORDS[i]}
                break
                ;;
        esac
    done

    case $prev in
        --socket | --token-file | --cacert | --cert | --key | --router-log | --output | -o | --file | -f | --workload | --prompts | --template)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
            ;;
        --directory | -d | --trace-dir | --tokenizer)
            if [[ $prev != -d || $verb == get || $verb == run ]]; then
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -d -- "$cur")
                return
            fi
            ;;
        --session | -s)
            mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids s)" -- "$cur")
            return
            ;;
        --named)
            mapfile -t COMPREPLY < <(compgen -W "list $(profctl query --named list --no-legend 2>/dev/null | awk '{print $1}')" \
                -- "$cur")
            return
            ;;
        --format)
            mapfile -t COMPREPLY < <(compgen -W "list $(profctl export --format list --no-legend 2>/dev/null | awk '{print $1}')" \
                -- "$cur")
            return
            ;;
        --api)
            mapfile -t COMPREPLY < <(compgen -W 'auto completions chat generate rtp-llm template' -- "$cur")
            return
            ;;
        --arrival)
            mapfile -t COMPREPLY < <(compgen -W 'poisson constant gamma closed' -- "$cur")
            return
            ;;
        --through)
            mapfile -t COMPREPLY < <(compgen -W 'router workers' -- "$cur")
            return
            ;;
        --save-as)
            mapfile -t COMPREPLY < <(compgen -W 'vllm-bench aiperf' -- "$cur")
            return
            ;;
        --sweep)
            compopt -o nospace 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -W 'concurrency= rate= isl= osl=' -- "$cur")
            return
            ;;
        --align)
            mapfile -t COMPREPLY < <(compgen -W 'auto wall collectives start' -- "$cur")
            return
            ;;
        --role)
            local roles='prefill decode regular encode'
            [[ $verb == token ]] && roles='read operate admin'
            mapfile -t COMPREPLY < <(compgen -W "$roles" -- "$cur")
            return
            ;;
        --unit | --user-unit)
            [[ $verb == run ]] || mapfile -t COMPREPLY < <(_profctl_units "$prev" "$cur")
            return
            ;;
        --profiler)
            mapfile -t COMPREPLY < <(compgen -W 'nsys none' -- "$cur")
            return
            ;;
        --mode)
            local modes='default prefill decode rtp-llm whole'
            [[ $verb == *-command ]] && modes='prefill decode aggregated'
            mapfile -t COMPREPLY < <(compgen -W "$modes" -- "$cur")
            return
            ;;
        --by)
            mapfile -t COMPREPLY < <(compgen -W 'op stack kernel' -- "$cur")
            return
            ;;
        --phase)
            mapfile -t COMPREPLY < <(compgen -W 'prefill decode mixed training' -- "$cur")
            return
            ;;
        --report | -r)
            local before=
            [[ $cur == *,* ]] && before=${cur%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(profctl reports --no-legend 2>/dev/null | cut -d' ' -f1)" \
                -- "${cur##*,}")
            return
            ;;
        --html | --classes | --recipe | --onnx)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
            ;;
        --sort)
            mapfile -t COMPREPLY < <(compgen -W 'ttot tsub ncall tavg' -- "$cur")
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
    elif [[ $prev == --?* ]] && _profctl_takes_value "$verb" "$prev"; then
        return
    elif [[ -z $verb || $verb == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_profctl_verbs)" -- "$cur")
    else
        case $verb in
            status) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids s)" -- "$cur") ;;
            stop) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids sr)" -- "$cur") ;;
            compare) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids r)" -- "$cur") ;;
            functions)
                mapfile -t COMPREPLY < <(
                    compgen -W "$(_profctl_ids s)" -- "$cur"
                    cd "${XDG_STATE_HOME:-$HOME/.local/state}/profd/functions" 2>/dev/null &&
                        compgen -G "$cur*.json" | sed 's/\.json$//'
                )
                ;;
            run) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
            ingest)
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                ;;
            query | export | merge)
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(
                    compgen -W "$(_profctl_ids t)" -- "$cur"
                    compgen -f -- "$cur"
                )
                ;;
            analyze | diff | flame)
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(
                    compgen -W "$(_profctl_ids st)" -- "$cur"
                    compgen -f -- "$cur"
                )
                ;;
            token) mapfile -t COMPREPLY < <(compgen -W new -- "$cur") ;;
            open) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids t)" -- "$cur") ;;
            show | rm) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids str)" -- "$cur") ;;
            get | pin | unpin) mapfile -t COMPREPLY < <(compgen -W "$(_profctl_ids st)" -- "$cur") ;;
        esac
    fi
}

complete -F _profctl profctl
