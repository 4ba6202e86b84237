# SPDX-License-Identifier: Apache-2.0
# Completion of profctl for fish; profctl itself prints the candidates.

function __profctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for line in ($program __complete -- $words "$current" 2>/dev/null)
        switch $line
            case ':*f*'
                __fish_complete_path "$current"
            case ':*d*'
                __fish_complete_directories "$current" ''
            case ':*c*'
                complete -C "$current"
            case ':*'
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c profctl -f -a '(__profctl_complete)'
