#compdef profctl
# SPDX-License-Identifier: Apache-2.0
# Completion of profctl for zsh; profctl itself prints the candidates.

_profctl() {
    local line flags tab=$'\t'
    local -a lines found shown
    local -i width=0
    lines=("${(@f)$("${(Q)words[1]}" __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        case $line in
            :*) flags=${line#:} ;;
            ?*) found+=("${line%%$tab*}") ;;
        esac
    done
    for line in $found; do
        (( $#line > width )) && width=$#line
    done
    for line in $lines; do
        case $line in
            :*) ;;
            *$tab*) shown+=("${(r:width:)${line%%$tab*}}  -- ${line#*$tab}") ;;
            ?*) shown+=("$line") ;;
        esac
    done
    local -a suffix
    [[ $flags == *n* ]] && suffix=(-S '')
    (( $#found )) && compadd $suffix -l -d shown -a found
    case $flags in
        *f*) compset -P '--*='; _files ;;
        *d*) compset -P '--*='; _files -/ ;;
        *c*) _command_names -e ;;
    esac
}

# Loaded by its name it completes at once; sourced it is only declared.
if [[ $funcstack[1] == _profctl ]]; then
    _profctl "$@"
else
    compdef _profctl profctl
fi
