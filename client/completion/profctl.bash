# SPDX-License-Identifier: Apache-2.0
# Completion of profctl for bash; profctl itself prints the candidates.

_profctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} line flags=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :*) flags=${line#:} ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [[ $cur == = ]] && cur=
    case $flags in
        *f*)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
            ;;
        *d*)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur")
            ;;
        *c*) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$cur") ;;
        *n*) compopt -o nospace 2>/dev/null ;;
    esac
}

complete -F _profctl profctl
