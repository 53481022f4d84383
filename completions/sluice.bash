# bash completion for sluice. Made by 'sluice help --completion bash'; do not edit.
_sluice_models()
{
    COMPREPLY=($(compgen -f -X '!*.gguf' -- "$cur") $(compgen -d -- "$cur"))
}
_sluice()
{
    local cur prev cmd opts= words= commands="run chat serve plan inspect tokenize template logits perplexity bench profile doctor quantize checksum verify pack replay version help"
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD-1]}
    cmd=${COMP_WORDS[1]}
    COMPREPLY=()
    # bash splits words at '=' and ':'
    if [[ $cur == "=" ]]; then cur=
    elif [[ $prev == "=" ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "$commands --help --version" -- "$cur"))
        return
    fi
    case "$cmd" in
    run)
        case "$prev" in
            --kv-dir|--trace|--usage|--hotlist|--pin|--file|-f|--chat-template-file|--schema)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --cpu)
                COMPREPLY=($(compgen -W "auto scalar avx2 avx512 amx neon dotprod i8mm" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --route)
                COMPREPLY=($(compgen -W "auto token selected layers" -- "$cur")); return ;;
            --lock)
                COMPREPLY=($(compgen -W "dense experts all" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--prefix-memory|--kv-limit|--threads|-t|--chunk|--lock-margin|--simulate-used-memory|--warm-experts|--pre|--prompt|-p|--system|--max-tokens|-n|--stop|--temp|--top-k|--top-p|--min-p|--repeat-penalty|--repeat-last|--presence-penalty|--frequency-penalty|--logit-bias|--seed|-s)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --prefix-memory --kv-dir --kv-limit --threads --chunk --cpu --io --policy --trace --route --lock --lock-margin --simulate-used-memory --usage --no-usage --hotlist --cold --warm-experts --pin --prefetch --verify --pre --prompt --file --chat --chat-template-file --system --max-tokens --stop --schema --special --temp --top-k --top-p --min-p --repeat-penalty --repeat-last --presence-penalty --frequency-penalty --logit-bias --seed --greedy --quiet --verbose --help"
        words=models
        ;;
    chat)
        case "$prev" in
            --kv-dir|--trace|--usage|--hotlist|--pin|--chat-template-file|--schema)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --cpu)
                COMPREPLY=($(compgen -W "auto scalar avx2 avx512 amx neon dotprod i8mm" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --route)
                COMPREPLY=($(compgen -W "auto token selected layers" -- "$cur")); return ;;
            --lock)
                COMPREPLY=($(compgen -W "dense experts all" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--prefix-memory|--kv-limit|--threads|-t|--chunk|--lock-margin|--simulate-used-memory|--warm-experts|--pre|--system|--max-tokens|-n|--stop|--temp|--top-k|--top-p|--min-p|--repeat-penalty|--repeat-last|--presence-penalty|--frequency-penalty|--logit-bias|--seed|-s)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --prefix-memory --kv-dir --kv-limit --threads --chunk --cpu --io --policy --trace --route --lock --lock-margin --simulate-used-memory --usage --no-usage --hotlist --cold --warm-experts --pin --prefetch --verify --pre --chat-template-file --system --max-tokens --stop --schema --temp --top-k --top-p --min-p --repeat-penalty --repeat-last --presence-penalty --frequency-penalty --logit-bias --seed --greedy --quiet --verbose --help"
        words=models
        ;;
    serve)
        case "$prev" in
            --kv-dir|--trace|--usage|--hotlist|--pin|--chat-template-file|--api-key-file)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --cpu)
                COMPREPLY=($(compgen -W "auto scalar avx2 avx512 amx neon dotprod i8mm" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --route)
                COMPREPLY=($(compgen -W "auto token selected layers" -- "$cur")); return ;;
            --lock)
                COMPREPLY=($(compgen -W "dense experts all" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --log)
                COMPREPLY=($(compgen -W "requests all off" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--prefix-memory|--kv-limit|--threads|-t|--chunk|--lock-margin|--simulate-used-memory|--warm-experts|--pre|--max-tokens|-n|--host|--port|--cors|--alias|--sessions|--queue|--max-connections|--max-body|--max-header|--timeout-idle|--timeout-receive|--timeout-stall|--keep-alive|--temp|--top-k|--top-p|--min-p|--repeat-penalty|--repeat-last|--presence-penalty|--frequency-penalty|--seed|-s)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --prefix-memory --kv-dir --kv-limit --threads --chunk --cpu --io --policy --trace --route --lock --lock-margin --simulate-used-memory --usage --no-usage --hotlist --cold --warm-experts --pin --prefetch --verify --pre --chat-template-file --max-tokens --host --port --api-key-file --insecure --cors --alias --sessions --queue --max-connections --max-body --max-header --timeout-idle --timeout-receive --timeout-stall --keep-alive --log --temp --top-k --top-p --min-p --repeat-penalty --repeat-last --presence-penalty --frequency-penalty --seed --greedy --quiet --verbose --help"
        words=models
        ;;
    plan)
        case "$prev" in
            --kv-dir|--disk)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--prefix-memory|--kv-limit|--threads|-t|--chunk|--simulate-used-memory|--pre|--sessions|--max-body)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --prefix-memory --kv-dir --kv-limit --threads --chunk --io --policy --simulate-used-memory --prefetch --pre --serve --sessions --max-body --disk --json --quiet --verbose --help"
        words=models
        ;;
    inspect)
        case "$prev" in
            --model|-m)
                _sluice_models; return ;;
            --memory|--simulate-used-memory|--pre)
                return ;;
        esac
        opts="--model --memory --simulate-used-memory --pre --json --help"
        words=models
        ;;
    tokenize)
        case "$prev" in
            --file|-f)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --pre|--prompt|-p)
                return ;;
        esac
        opts="--model --pre --prompt --file --special --bos --json --quiet --verbose --help"
        ;;
    template)
        case "$prev" in
            --file|-f|--vars)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --now)
                return ;;
        esac
        opts="--file --vars --now --help"
        ;;
    logits)
        case "$prev" in
            --trace|--usage|--hotlist|--pin|--tokens|--out|-o)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --cpu)
                COMPREPLY=($(compgen -W "auto scalar avx2 avx512 amx neon dotprod i8mm" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --route)
                COMPREPLY=($(compgen -W "auto token selected layers" -- "$cur")); return ;;
            --lock)
                COMPREPLY=($(compgen -W "dense experts all" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--threads|-t|--chunk|--lock-margin|--simulate-used-memory|--warm-experts|--pre)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --threads --chunk --cpu --io --policy --trace --route --lock --lock-margin --simulate-used-memory --usage --no-usage --hotlist --cold --warm-experts --pin --prefetch --verify --pre --tokens --out --quiet --verbose --help"
        ;;
    perplexity)
        case "$prev" in
            --trace|--usage|--hotlist|--pin|--file|-f)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --cpu)
                COMPREPLY=($(compgen -W "auto scalar avx2 avx512 amx neon dotprod i8mm" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --route)
                COMPREPLY=($(compgen -W "auto token selected layers" -- "$cur")); return ;;
            --lock)
                COMPREPLY=($(compgen -W "dense experts all" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--threads|-t|--chunk|--lock-margin|--simulate-used-memory|--warm-experts|--pre)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --threads --chunk --cpu --io --policy --trace --route --lock --lock-margin --simulate-used-memory --usage --no-usage --hotlist --cold --warm-experts --pin --prefetch --verify --pre --file --json --quiet --verbose --help"
        ;;
    bench)
        case "$prev" in
            --trace|--usage|--hotlist|--pin|--file|-f)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --cpu)
                COMPREPLY=($(compgen -W "auto scalar avx2 avx512 amx neon dotprod i8mm" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --route)
                COMPREPLY=($(compgen -W "auto token selected layers" -- "$cur")); return ;;
            --lock)
                COMPREPLY=($(compgen -W "dense experts all" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--threads|-t|--chunk|--lock-margin|--simulate-used-memory|--warm-experts|--pre|--prefill|-p|--decode|-n|--repetitions|-r)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --threads --chunk --cpu --io --policy --trace --route --lock --lock-margin --simulate-used-memory --usage --no-usage --hotlist --cold --warm-experts --pin --prefetch --verify --pre --file --prefill --decode --repetitions --json --quiet --verbose --help"
        words=models
        ;;
    profile)
        case "$prev" in
            --trace|--file|-f|--out|-o)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
            --kv-type)
                COMPREPLY=($(compgen -W "f16 q8_0 f32" -- "$cur")); return ;;
            --cpu)
                COMPREPLY=($(compgen -W "auto scalar avx2 avx512 amx neon dotprod i8mm" -- "$cur")); return ;;
            --io)
                COMPREPLY=($(compgen -W "auto uring threads sync auto:buffered uring:buffered threads:buffered sync:buffered" -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --route)
                COMPREPLY=($(compgen -W "auto token selected layers" -- "$cur")); return ;;
            --lock)
                COMPREPLY=($(compgen -W "dense experts all" -- "$cur")); return ;;
            --prefetch)
                COMPREPLY=($(compgen -W "auto off lookahead transitions next certain" -- "$cur")); return ;;
            --memory|--experts|--ctx|-c|--threads|-t|--chunk|--lock-margin|--simulate-used-memory|--pre|--prompt|-p|--max-tokens|-n)
                return ;;
        esac
        opts="--model --memory --experts --ctx --kv-type --threads --chunk --cpu --io --policy --trace --route --lock --lock-margin --simulate-used-memory --prefetch --verify --pre --prompt --file --chat --max-tokens --out --json --quiet --verbose --help"
        ;;
    doctor)
        case "$prev" in
        esac
        opts="--full --json --help"
        words=files
        ;;
    quantize)
        case "$prev" in
            --type)
                COMPREPLY=($(compgen -W "Q8_0 Q4_0 Q4_K Q6_K TQ1_0 TQ2_0 F16" -- "$cur")); return ;;
            --threads|-t|--tensor-type)
                return ;;
        esac
        opts="--threads --type --tensor-type --requantize --quiet --verbose --help"
        words=files
        ;;
    checksum)
        case "$prev" in
            --out|-o)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
        esac
        opts="--model --out --json --quiet --help"
        ;;
    verify)
        case "$prev" in
            --sums)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --model|-m)
                _sluice_models; return ;;
        esac
        opts="--model --sums --json --quiet --help"
        ;;
    pack)
        case "$prev" in
        esac
        opts="--json --quiet --help"
        words=files
        ;;
    replay)
        case "$prev" in
            --disk|--plot)
                COMPREPLY=($(compgen -f -- "$cur")); return ;;
            --policy)
                COMPREPLY=($(compgen -W "all auto lru lfu hotness freq-age expected recall" -- "$cur")); return ;;
            --sizes)
                return ;;
        esac
        opts="--policy --sizes --disk --plot --json --quiet --verbose --help"
        words=files
        ;;
    version)
        case "$prev" in
        esac
        opts="--json --help"
        ;;
    help)
        case "$prev" in
            --completion)
                COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")); return ;;
        esac
        opts="--man --completion --help"
        words=commands
        ;;
    esac
    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$opts" -- "$cur"))
    elif [[ $words == models ]]; then _sluice_models
    elif [[ $words == files ]]; then COMPREPLY=($(compgen -f -- "$cur"))
    elif [[ $words == commands ]]; then COMPREPLY=($(compgen -W "$commands" -- "$cur")); fi
}
complete -o filenames -F _sluice sluice
