# Words as people see them: bash itself also splits at = and :.
__copilot-bridge_words()
{
    local i word gap n=0 rest=${COMP_LINE}
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n ${word} ]]; then
            gap=${rest%%"${word}"*}
            rest=${rest#*"${word}"}
        else
            gap=${rest}
        fi
        if [[ ${n} -gt 0 && -z ${gap} && (${word} == [=:]* || ${words[n-1]} == *[=:]) ]]; then
            words[n-1]+=${word}
        else
            words[n]=${word}
            n=$((n + 1))
        fi
        if [[ ${i} -eq ${COMP_CWORD} ]]; then
            cword=$((n - 1))
        fi
    done
    cur=${words[cword]}
    prev=
    if [[ ${cword} -gt 0 ]]; then
        prev=${words[cword-1]}
    fi
}

__copilot-bridge_filedir()
{
    if declare -F _filedir >/dev/null 2>&1; then
        _filedir "$@"
        return
    fi
    local kind=-f IFS=$'\n'
    if [[ ${1-} == -d ]]; then
        kind=-d
    fi
    COMPREPLY=($(compgen ${kind} -- "${cur}"))
}

