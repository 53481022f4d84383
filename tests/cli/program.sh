#!/bin/sh
# The program with the scripted library (fake_sluice.c): exit codes, streams, conversations. SLUICE_FAKE names it.
# Prints what fails and exits 1.
set -u
fake=${SLUICE_FAKE:?}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export XDG_STATE_HOME="$dir"
for v in $(env | sed -n 's/^\(SLUICE_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect CODE COMMAND...: runs it, keeps stdout in out and stderr in err.
expect() {
    want=$1
    shift
    "$@" >out 2>err </dev/null
    got=$?
    [ $got -eq "$want" ] || fail "exit code $got, not $want: $* ($(head -c 200 err))"
}
is() { # is FILE TEXT: the file is exactly the text
    printf '%b' "$2" >want
    cmp -s "$1" want || fail "$1 is '$(head -c 300 "$1")', not '$2'"
}
has() { grep -qF -- "$2" "$1" || fail "$1 has no '$2': $(head -c 300 "$1")"; }
hasnt() { ! grep -qF -- "$2" "$1" || fail "$1 has '$2'"; }

printf 'ctx=200\nHello, w\303\266rld! Stop here, \360\237\230\200 please.' >model
printf 'broken\n' >broken
printf 'huge\n' >huge
printf 'slow forever\nla ' >slow
printf 'forever ctx=60\nabc ' >endless
printf 'ctx=100\nend\303' >cut

# --- exit codes and messages
expect 2 "$fake"
is out ''
has err 'Usage: sluice COMMAND'
expect 2 "$fake" runn
is err "sluice: 'runn' is not a command\n  did you mean 'run'?\n"
expect 2 "$fake" run -m model --tmp 1
has err 'did you mean --temp?'
expect 2 "$fake" plan -m model --temp 1
has err 'it belongs to: run, chat'
expect 2 "$fake" run -m model -p x --top-p 2
has err 'from 0 to 1'
expect 5 "$fake" run -m missing -p x
is err 'sluice: missing: cannot open\n  check the path\n'
is out ''
expect 5 "$fake" run -m model -f missing
expect 3 "$fake" run -m broken -p x
expect 4 "$fake" run -m huge -p x
expect 3 "$fake" tokenize -m broken -p x
expect 2 env SLUICE_TOP_K=many "$fake" run -m model -p x
has err SLUICE_TOP_K
expect 0 "$fake" --help
has out 'Commands:'
expect 0 "$fake" run --help
has out 'Usage: sluice run'
expect 0 "$fake" help quantize
has out '--tensor-type'
expect 2 "$fake" help nothing
expect 2 "$fake" help rnu
is err "sluice: 'rnu' is not a command\n  did you mean 'run'?\n"
expect 2 "$fake" help man
has err "'sluice help --man'"
expect 0 "$fake" help
has out '(--man)'
expect 0 "$fake" --version
is out 'sluice 0.1.0\n'
expect 0 "$fake" version --json
has out '"version": "0.1.0"'

# --- standard output is data alone, and its failures are noticed
expect 0 "$fake" run -m model -p hi
is out 'Hello, wörld! Stop here, 😀 please.'
has err 'memory budget'
has err 'dense weights'
has err 'tokens/s'
has err '% hits'
has err 'seed '
has err 'sluice: note: a note of the library'
has err 'sluice: warning: a warning of the library'
hasnt err 'a detail of the library'
expect 0 "$fake" run -m model -p hi -q --seed 5
is err 'sluice: warning: a warning of the library\n'
expect 0 "$fake" run -m model -p hi -v --greedy
has err 'sluice: debug: a detail of the library'
hasnt err 'seed '
expect 0 env SLUICE_MODEL=model SLUICE_QUIET=1 "$fake" run -p hi
is out 'Hello, wörld! Stop here, 😀 please.'
if [ -e /dev/full ]; then
    "$fake" version >/dev/full 2>err
    [ $? -eq 5 ] || fail 'a full disk is exit code 5'
    has err 'sluice: standard output:'
fi
"$fake" version >&- 2>err
[ $? -eq 5 ] || fail 'closed standard output is exit code 5'
# A reader that leaves: no word, and the program ends although the text would go on for ever.
printf 'forever ctx=1000000\nabc ' >river
{ "$fake" run -m river -p x -q 2>err; echo $? >code; } | head -c 10 >out
is code '5\n'
is out 'abc abc ab'
hasnt err 'standard output'

expect 0 "$fake" run model -p hi -q --seed 5
is out 'Hello, wörld! Stop here, 😀 please.'

# --- ends of a text
expect 0 "$fake" run -m model -p hi -q -n 5
is out 'Hello'
expect 0 "$fake" run -m model -p hi -q -n 0
is out ''
expect 0 "$fake" run -m model -p hi -q --stop ' Stop'
is out 'Hello, wörld!'
expect 0 "$fake" run -m model -p hi -q --stop xyz --stop ', w' --stop Hello,x
is out 'Hello'
expect 0 "$fake" run -m model -p hi -q -n 9
is out 'Hello, w\357\277\275'
expect 0 "$fake" run -m cut -p hi -q
is out 'end\357\277\275'
expect 0 "$fake" run -m endless -p hi -q
has err 'context full (60 tokens)'
[ "$(wc -c <out)" -eq 58 ] || fail "the context holds 60 tokens: $(wc -c <out) came after 3"
expect 2 "$fake" run -m endless -p 'a prompt that is much too long for a context of sixty tokens, is it not?'
is out ''
has err 'context full (60 tokens): the prompt has'
printf nobos >nobos
expect 2 "$fake" run -m nobos -p '' -q
has err 'prompt is empty'

# --- prompts
printf 'from a file' >prompt
rm -f log
FAKE_LOG=log expect 0 "$fake" run -m model -f prompt -q -n 1
is log 'eval 12\n'
rm -f log
printf 'abc' | FAKE_LOG=log "$fake" run -m model -q -n 1 >out 2>err
is log 'eval 4\n'
rm -f log
FAKE_LOG=log expect 0 "$fake" run -m model -p abc --chat --system be -q -n 1
is log 'eval 14\n' # BOS "s:be\n" "u:abc\n" "a:"

# --- Ctrl-C
"$fake" run -m slow -p hi -q >out 2>err &
pid=$!
tries=0
until [ "$(wc -c <out)" -ge 6 ] || [ $tries -gt 200 ]; do tries=$((tries + 1)); sleep 0.05; done
kill -INT $pid
wait $pid
code=$?
# A shell without job control starts background programs with SIGINT ignored; the program sets its own handler.
[ $code -eq 130 ] || fail "interrupted: exit code $code"
has out 'la la'

# --- tokens
expect 0 "$fake" tokenize -m model -p 'AB' -q
is out '65 66\n'
expect 0 "$fake" tokenize -m model -p 'A' --bos -q
is out '256 65\n'
expect 0 "$fake" tokenize -m model -p 'A<end>' --special -q
is out '65 257\n'
expect 0 "$fake" tokenize -m model -f /dev/null -q
is out '\n'
expect 0 "$fake" tokenize -m model -p A -q --json
has out '"ids"'

# --- template (the real interpreter: it needs no model)
cat >chat.jinja <<'END'
{{ bos_token }}{% for m in messages %}
<{{ m.role }}>{{ m.content | trim }}
{% endfor %}
{% if add_generation_prompt %}<assistant>{% endif %} {{ strftime_now('%d %b %Y') }}
END
printf '%s\n' '{"bos_token": "<s>", "messages": [{"role": "user", "content": " Gr\u00fc\u00df dich "}], "add_generation_prompt": true}' >vars.json
expect 0 "$fake" template --file chat.jinja --vars vars.json --now 2026-07-04T09:05:06
is out '<s><user>Gr\303\274\303\237 dich\n<assistant> 04 Jul 2026'
is err ''
"$fake" template --vars vars.json --now 2026-07-04 <chat.jinja >piped 2>err || fail 'template from standard input'
cmp -s out piped || fail 'template from standard input is another one'
"$fake" template -f chat.jinja --vars - --now '2026-07-04 09:05' <vars.json >piped 2>err || fail 'variables from standard input'
cmp -s out piped || fail 'variables from standard input are others'
printf '{{ strftime_now("%%Y") | int > 2000 }}' >now.jinja
expect 0 "$fake" template -f now.jinja
is out 'True'
printf 'a\n  {{ x.y }}' >broken.jinja
expect 3 "$fake" template -f broken.jinja
is out ''
is err "sluice: broken.jinja, line 2, column 7: 'x' is undefined\n"
printf '{%% if x %%}' >broken.jinja
expect 3 "$fake" template -f broken.jinja --vars vars.json
has err 'broken.jinja, line 1, column 4: '
printf '{{ raise_exception("only " ~ 1 ~ " system message") }}' >broken.jinja
expect 3 "$fake" template -f broken.jinja
has err 'only 1 system message'
echo '{"a": tru}' >broken.json
expect 2 "$fake" template -f chat.jinja --vars broken.json
has err 'broken.json: variables, line 1, column 7'
echo '[]' >broken.json
expect 2 "$fake" template -f chat.jinja --vars broken.json
has err 'not an object'
expect 2 "$fake" template -f chat.jinja --vars vars.json --now yesterday
has err "--now: 'yesterday'"
expect 2 "$fake" template --vars -
has err 'cannot both come from standard input'
expect 2 "$fake" template -f chat.jinja -m model
has err "'template' has no option '-m'"
expect 5 "$fake" template -f missing.jinja

# --- logits
printf ' 1 2\n3\t' >ids
expect 0 "$fake" logits -m model --tokens ids --out logits -q
[ "$(wc -c <logits)" -eq $((3 * 258 * 4)) ] || fail 'logits: size'
[ "$(od -An -tx1 -N4 logits | tr -d ' ')" = 0000803f ] || fail 'logits: 1.0 in little-endian'
[ ! -e logits.part ] || fail 'logits: a part file is left'
rm -f log
FAKE_LOG=log expect 0 "$fake" logits -m endless --tokens ids --out logits -q
is log 'eval 3\n'
for bad in '1 x' '1 -2' '99999999999' '' '258'; do
    printf '%s' "$bad" >ids
    rm -f logits
    expect 2 "$fake" logits -m model --tokens ids --out logits -q
    [ ! -e logits ] && [ ! -e logits.part ] || fail "logits: a file in spite of '$bad'"
done
printf '1 2 3' >ids
expect 5 "$fake" logits -m model --tokens ids --out nowhere/logits -q
expect 2 "$fake" logits -m model --tokens ids --out logits --ctx 2 -q

# --- where a result goes
printf '1 2 3' >ids
bytes=$((3 * 258 * 4))
size() { wc -c <"$1"; }
expect 2 "$fake" logits -m model --tokens ids --out '' -q
for target in . model hard ids link; do
    case $target in
    hard) ln model hard ;;
    link) ln -s model link ;;
    esac
    expect 2 "$fake" logits -m model --tokens ids --out $target -q
    has err "--out"
done
rm hard link
expect 2 "$fake" logits -m broken --tokens ids --out . -q # known before the model is looked at
has err 'is a directory'
expect 2 "$fake" logits -m model --tokens "$dir/ids" --out ids -q
"$fake" logits -m model --tokens - --out ids -q <ids 2>err
[ $? -eq 2 ] || fail 'logits: over its standard input'
is ids '1 2 3'
cp model part-00001-of-00002.gguf && cp model part-00002-of-00002.gguf
expect 2 "$fake" logits -m part-00001-of-00002.gguf --tokens ids --out part-00002-of-00002.gguf -q
has err 'the model itself'
cmp -s model part-00002-of-00002.gguf || fail 'logits: a file of the model is gone'
mkdir place
ln -s place/new link
expect 0 "$fake" logits -m model --tokens ids --out link -q # to what is not there yet
expect 0 "$fake" logits -m model --tokens ids --out link -q # and to what is
[ -L link ] && [ "$(size place/new)" -eq $bytes ] && [ "$(ls place)" = new ] || fail "a link: $(ls -l . place)"
rm link
ln -s round link
ln -s link round
expect 5 "$fake" logits -m model --tokens ids --out link -q
echo mine >logits.part
echo old >logits
chmod 600 logits
expect 0 "$fake" logits -m model --tokens ids --out logits -q
is logits.part 'mine\n'
[ "$(size logits)" -eq $bytes ] && [ ! -e logits.part.1 ] || fail 'a part file of somebody else'
[ "$(ls -l logits | cut -c1-10)" = -rw------- ] || fail 'a private file became public'
rm logits.part
ln -s model logits.part # nor is it followed
expect 0 "$fake" logits -m model --tokens ids --out logits -q
[ -L logits.part ] && [ "$(head -c 3 model)" = ctx ] || fail 'a link in place of the part file'
rm logits.part
mkfifo pipe
cat pipe >piped &
expect 0 "$fake" logits -m model --tokens ids --out pipe -q
wait $!
[ -p pipe ] && cmp -s piped logits || fail 'a pipe'
"$fake" logits -m model --tokens ids --out /dev/stdout -q 2>err | cmp -s - logits || fail '/dev/stdout, a pipe'
echo before >appended
"$fake" logits -m model --tokens ids --out /dev/stdout -q >>appended 2>err
[ "$(size appended)" -eq $((bytes + 7)) ] || fail '/dev/stdout, appended to'
expect 0 "$fake" logits -m model --tokens ids --out /dev/null -q
[ -c /dev/null ] || fail '/dev/null is a device no more'
if [ -e /dev/full ]; then
    expect 5 "$fake" logits -m model --tokens ids --out /dev/full -q
    [ -c /dev/full ] || fail '/dev/full is a device no more'
fi
rm logits
(
    ulimit -f 1
    "$fake" logits -m model --tokens ids --out logits -q 2>/dev/null
)
[ $? -eq 5 ] || fail 'a file that may not grow is exit code 5'
[ ! -e logits ] && [ ! -e logits.part ] || fail 'a file that may not grow is left'
expect 2 "$fake" run -m model -p x --trace model -q
expect 2 "$fake" run -m model -p x --trace /dev/null -q
[ "$(head -c 3 model)" = ctx ] || fail 'the trace went over the model'

# --- signals
printf 'slow stubborn\nla ' >stubborn
awk 'BEGIN { for (i = 0; i < 3000; i++) print 1 }' >many
until_there() { # FILE
    tries=0
    until [ -e "$1" ] || [ $tries -gt 400 ]; do tries=$((tries + 1)); sleep 0.02; done
}
# A caller such as nohup has SIGHUP ignored, which its children inherit and rightly keep: undone here where env can.
heard=
env --default-signal=HUP true 2>/dev/null && heard='env --default-signal=HUP'
signalled() { # CODE SIGNAL...: a logits that takes long, then the signals
    want=$1
    shift
    $heard "$fake" logits -m stubborn --tokens many --out slow.out -q >out 2>err &
    pid=$!
    until_there slow.out.part
    for signal; do kill -s "$signal" $pid; sleep 0.1; done
    wait $pid
    code=$?
    [ $code -eq "$want" ] || fail "$*: exit code $code"
    [ ! -e slow.out ] && [ ! -e slow.out.part ] || fail "$*: a file is left"
}
signalled 143 TERM
[ -z "$heard" ] || signalled 129 HUP
signalled 130 INT INT
printf 'endless-text\n' >endless-text
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "a" }' >text
rm -f log
FAKE_LOG=log "$fake" tokenize -m endless-text -f text -q >out 2>err &
pid=$!
until_there log
kill -s INT $pid
wait $pid
code=$?
[ $code -eq 130 ] || fail "interrupted while tokenizing: exit code $code"
has err 'sluice: interrupted'
is out ''

# --- what needs no model is known before it is opened
long=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "x" }')
expect 2 "$fake" run -m missing -p x --stop "$long"
has err '300 bytes'
expect 2 "$fake" bench -m missing -p 8 -n 4 --ctx 11
has err 'use --ctx 12'
expect 2 "$fake" perplexity -m missing -f ids --ctx 3
has err '--ctx: a window'
expect 2 env SLUICE_CTX=3 "$fake" perplexity -m missing -f ids
has err 'SLUICE_CTX: a window'
expect 2 "$fake" logits -m missing --tokens ids --out x --ctx 2
has err 'use --ctx 3'
expect 2 "$fake" inspect ''
has err 'the path is empty'
expect 2 "$fake" quantize missing '' --type F16
has err 'the path is empty'
expect 2 "$fake" --version extra
has err extra
expect 2 "$fake" --help extra
expect 2 "$fake" run -m missing -p x --chunk 4097
has err 'from 1 to 4096'
expect 4 env SLUICE_MEMORY=1M "$fake" run -m huge -p x
has err 'SLUICE_MEMORY: the budget'
expect 4 "$fake" run -m huge -p x --memory 1M
has err '--memory: the budget'

# --- threads
expect 0 "$fake" run -m model -p hi -q --greedy --threads 1
hasnt err slower
expect 0 "$fake" run -m model -p hi -q --greedy --threads 256
has err '256 threads on '

# --- perplexity: the scripted logits are linear in the id, so the value is known
awk 'BEGIN { for (i = 0; i < 40; i++) printf "a" }' >text
expect 0 "$fake" perplexity -m model -f text --ctx 16 -q
# sum of exp(j/1000) over j = 0 .. 257, divided by exp(97/1000)
has out 'perplexity 266.99'
has out ' over 16 tokens (windows of 16)'
expect 0 "$fake" perplexity -m model -f text --ctx 16 -q --json
has out '"tokens_scored": 16'
printf 'ab' >text
expect 2 "$fake" perplexity -m model -f text -q

# --- the report: on a line of its own where both streams are one; no rate of nothing; a cut document is told of
"$fake" run -m model -p hi --greedy >both 2>&1 </dev/null
grep -q '^Hello, w.*please\.$' both || fail "run > log 2>&1: $(tail -c 300 both)"
"$fake" run -m model -p hi --greedy -q >both 2>&1 </dev/null
[ "$(tail -c 8 both)" = ' please.' ] || fail 'run -q > log 2>&1 adds nothing'
expect 0 "$fake" run -m model -p hi -n 1 --greedy
has err 'prefill '
hasnt err 'decode '
printf '/quit\n' | "$fake" chat -m model >out 2>err
hasnt err 'tokens/s'
printf '{"type": "object"}' >shape
expect 0 "$fake" run -m model -p hi -n 2 --greedy --schema shape
has err 'stopped after 2 tokens: the JSON may not be complete'
expect 0 "$fake" run -m model -p hi -n 2 --greedy --schema shape -q
hasnt err 'complete'
expect 0 "$fake" run -m model -p hi -n 2 --greedy
hasnt err 'complete'
expect 0 "$fake" -V
is out 'sluice 0.1.0\n'
expect 2 "$fake" -V more

# --- bench, plan
expect 0 "$fake" bench -m model -p 4,8 -n 2 -r 2 -q
[ "$(wc -l <out)" -eq 5 ] || fail 'bench: a heading and four rows'
expect 0 "$fake" bench -m model -p 4 -n 0 -r 1 -q --json
has out '"phase": "prefill"'
hasnt out '"phase": "decode"'
expect 2 "$fake" bench -m model -p 100000 -q
expect 0 "$fake" plan model
has out 'dense weights'
has out 'a token reads about 512 B'
expect 0 "$fake" plan -m model --json
has out '"expected_bytes_per_token": 512.0'

# --- chat without a terminal
rm -f log saved
printf 'one\ntwo\\\nthree\n/save saved\n/reset\n/nonsense\nfour\n' >lines
FAKE_LOG=log "$fake" chat -m model --seed 1 -q <lines >out 2>err
[ $? -eq 2 ] || fail 'chat: exit code of an unknown command'
[ "$(grep -c 'Hello, wörld! Stop here, 😀 please.' out)" -eq 3 ] || fail 'chat: three answers'
has err "unknown command '/nonsense'; /help lists them"
printf '/clear\n/bye\n/?\n/regen\n/set seed 1\n/read a\n/stat\n' >orders
"$fake" chat -m model --seed 1 -q <orders >out2 2>err2
[ $? -eq 2 ] || fail 'chat: exit code of orders of other programs'
has err2 "'/clear': here it is /reset"
has err2 "'/bye': here it is /quit"
has err2 "'/?': here it is /help"
has err2 "'/regen': there is none"
has err2 "'/set seed 1': there is none"
has err2 "'/read a': there is none"
has err2 "'/stat'; did you mean /stats?"
has saved 'two
three'
[ "$(grep -c . saved)" -eq 9 ] || fail "saved: $(cat saved)"
# Only what is new is computed: BOS "u:one\n" "a:"; then the newline after the answer, "u:two\nthree\n", "a:".
grep -v 'eval 1$' log >long
is long 'eval 9\neval 15\nrewind 0\neval 10\n'
printf 'one\n' | "$fake" chat -m model -q --stop ' Stop' >out 2>err
is out 'Hello, wörld!\n'
printf 'one\ntwo\n' | "$fake" chat -m endless -q >out 2>err
[ $? -eq 2 ] || fail 'chat: exit code of a message that does not fit'
has err 'context full (60 tokens)'
printf 'one\n/save nowhere/x\n/nonsense\n' | "$fake" chat -m model -q >out 2>err
[ $? -eq 5 ] || fail 'chat: the first failure is the exit code'
has err nowhere/x
printf 'one\n/save model\n' | "$fake" chat -m model -q >out 2>err
[ $? -eq 2 ] || fail 'chat: /save over the model'
has err 'the model itself'
printf 'one\n/save .\n' | "$fake" chat -m model -q >out 2>err
[ $? -eq 2 ] || fail 'chat: /save over a directory'
printf 'one\n/save /dev/null\n/quit\n' | "$fake" chat -m model -q >out 2>err
[ $? -eq 0 ] && [ -c /dev/null ] || fail 'chat: /save /dev/null'
printf 'on\000e\ntwo\n' | "$fake" chat -m model -q >out 2>err
[ $? -eq 2 ] || fail 'chat: exit code of a NUL byte'
has err 'NUL byte'
is out 'Hello, wörld! Stop here, 😀 please.\n'

# --- what the cache is told: each option reaches the library
opened() { # COMMAND...: runs it, keeps what the library was opened with in opened
    rm -f opened
    FAKE_OPTIONS=opened expect 0 "$fake" "$@" -q
}
same() { # VALUE...: all of them are in opened
    for value; do grep -qF -- " $value " opened || sed 's/^/ /; s/$/ /' opened | grep -qF -- " $value " || fail "not opened with $value: $(cat opened)"; done
}
printf '1 2 3' >ids
awk 'BEGIN { for (i = 0; i < 40; i++) printf "a" }' >text
untold='usage=- no_usage=0 hotlist=- cold=0 warm=0 pin=- prefetch=- route=auto lock=- margin=- simulate=- pre=- plan=0'
unlearned='usage=- no_usage=1 hotlist=- cold=1 warm=0 pin=- prefetch=- route=auto lock=- margin=- simulate=- pre=- plan=0'
all='--pin auto --prefetch lookahead,next --route layers --lock experts --lock-margin 1G --simulate-used-memory 2G'
told='pin=auto prefetch=lookahead,next route=layers lock=experts margin=1G simulate=2G'
opened run -m model -p x
is opened "$untold\n"
opened chat -m model
is opened "$untold\n"
for command in 'logits --tokens ids --out logits' 'perplexity -f text --ctx 16' 'bench -p 4 -n 1 -r 1'; do
    opened $command -m model
    is opened "$unlearned\n"
    opened $command -m model --usage u --pin h
    same usage=u no_usage=0 cold=0 pin=h
    opened $command -m model --hotlist h --warm-experts 7
    same usage=- no_usage=1 hotlist=h cold=0 warm=7
    SLUICE_WARM_EXPERTS=7 opened $command -m model
    is opened "$unlearned\n" # not told what to load: a variable for others says nothing here
done
for command in 'run -p x' chat 'logits --tokens ids --out logits' 'perplexity -f text --ctx 16' 'bench -p 4 -n 1 -r 1'; do
    opened $command -m model $all --usage u --hotlist h --warm-experts 9
    same usage=u no_usage=0 hotlist=h cold=0 warm=9 $told
    opened $command -m model --no-usage --cold --prefetch off --route token --lock dense
    same usage=- no_usage=1 hotlist=- cold=1 prefetch=off route=token lock=dense margin=-
    SLUICE_USAGE=u SLUICE_HOTLIST=h SLUICE_PIN=p SLUICE_PREFETCH=next SLUICE_LOCK=all SLUICE_LOCK_MARGIN=3G \
        SLUICE_SIMULATE_USED_MEMORY=4G SLUICE_ROUTE=selected SLUICE_WARM_EXPERTS=5 opened $command -m model
    same usage=u no_usage=0 hotlist=h cold=0 warm=5 pin=p prefetch=next route=selected lock=all margin=3G simulate=4G
done
opened profile -m model -p x --prefetch off --route token --lock all --lock-margin 1G --simulate-used-memory 2G
same usage=- no_usage=1 hotlist=- cold=1 prefetch=off route=token lock=all margin=1G simulate=2G
opened plan -m model --simulate-used-memory 2G --prefetch off
same simulate=2G prefetch=off plan=1
for command in 'run -p x' chat plan 'tokenize -p x' 'logits --tokens ids --out logits' 'perplexity -f text --ctx 16' 'bench -p 4 -n 1 -r 1' 'profile -p x'; do
    opened $command -m model --pre qwen2
    same pre=qwen2
    SLUICE_PRE=gpt-2 opened $command -m model
    same pre=gpt-2
done
SLUICE_LOCK_MARGIN=1G opened run -m model -p x # a margin of nothing
same lock=- margin=-

# --- what is loaded beforehand: before the first token where it was asked for, in chat while nothing is typed
printf 'ctx=200 idle=4\nHello.' >warm
rm -f log
FAKE_LOG=log expect 0 "$fake" run -m warm -p hi --greedy --hotlist h
has err 'loaded beforehand: 4 experts, 3.91 KiB in '
is log 'idle 20\nidle 20\nidle 20\nidle 20\neval 3\neval 1\neval 1\neval 1\neval 1\neval 1\neval 1\n'
for command in 'logits --tokens ids --out logits' 'perplexity -f text --ctx 16' 'bench -p 4 -n 1 -r 1'; do
    rm -f log
    FAKE_LOG=log expect 0 "$fake" $command -m warm --hotlist h
    [ "$(grep -v rewind log | head -n 5 | tr '\n' ' ')" = 'idle 20 idle 20 idle 20 idle 20 eval 3 ' ] ||
        [ "$(head -n 4 log | grep -c idle)" -eq 4 ] || fail "$command: loads first: $(cat log)"
    rm -f log
    FAKE_LOG=log expect 0 "$fake" $command -m warm -q
    hasnt log idle
done
rm -f log
printf 'one\ntwo\n' | FAKE_LOG=log "$fake" chat -m warm -q >out 2>err # there is something to read: nobody waits
hasnt log idle
is out 'Hello.\nHello.\n'
rm -f log
{ sleep 0.3; echo one; sleep 0.3; printf two; } | FAKE_LOG=log "$fake" chat -m warm -q >out 2>err
[ "$(grep -c idle log)" -eq 4 ] && [ "$(head -n 1 log)" = 'idle 20' ] || fail "chat: idle before the first line: $(cat log)"
is out 'Hello.\nHello.\n'
printf 'ctx=200 idle=100000\nHello.' >warmer
"$fake" run -m warmer -p hi --hotlist h >out 2>err &
pid=$!
sleep 0.3
kill -INT $pid
wait $pid
code=$?
[ $code -eq 130 ] || fail "interrupted while loading beforehand: exit code $code"
is out ''

# --- the figures of the cache: shown where there are some, and nowhere else
printf 'ctx=200 figures\nHello.' >figures
short='cache    shrunk 2 times, by 1.00 KiB: memory was short; grown again once; now 1.00 KiB of 2.00 KiB'
sizes='sizes    with 2.00 GiB (now 1.00 GiB) decode would have been 1200.0 tokens/s (now 500.0); more than 3.00 GiB would not help'
full() { # FILE: everything is there
    has "$1" "$short"
    has "$1" "$sizes"
    has "$1" 'pins     5 experts, 1.25 KiB'
    has "$1" 'kept     17 experts of decode'
    has "$1" 'selected            3         0        96         1.50       1.25        2.5'
    has "$1" 'lookahead   yes      1000    75.0 %   25.0 %      400      300     60      40        3.6        0.4'
    has "$1" 'warm         no         7         -        -        7        7      0       0        0.0        0.0'
    has "$1" '1.50 GiB        3.00 KiB    70.0 %        900.0'
    hasnt "$1" '         next'
    hasnt "$1" '         layers'
}
expect 0 "$fake" run -m figures -p hi --greedy -v
full err
expect 0 "$fake" bench -m figures -p 4 -n 2 -r 1
full err
printf 'hi\n' | "$fake" chat -m figures --greedy -v >out 2>err
full err
expect 0 "$fake" run -m figures -p hi --greedy
has err "$short"
has err "$sizes"
for word in pins kept guesses prompts 'simulated' locked; do hasnt err "$word  "; done
expect 0 "$fake" run -m model -p hi --greedy -v # a library without figures
for word in cache sizes pins kept guesses prompts locked; do hasnt err "$word   "; done
expect 0 "$fake" bench -m figures -p 4 -n 2 -r 1 -q
is err 'sluice: warning: a warning of the library\n'
for what in all dense; do
    expect 0 "$fake" run -m model -p hi --greedy --lock $what
    [ $what = all ] || has err 'locked   4.00 KiB of 4.00 KiB
'
    [ $what = dense ] || has err 'locked   1.00 KiB of 4.00 KiB; skipped 3.00 KiB, of which the system refused 1.50 KiB'
done
for command in 'perplexity -f text --ctx 16' 'bench -p 4 -n 2 -r 1' 'profile -p hello'; do
    expect 0 "$fake" $command -m figures --json -q --lock all
    for pair in '"shrinks": 2' '"slots_limit_bytes": 1024' '"pinned": 5' '"kept_decode": 17' '"lock_skipped_bytes": 3072' \
        '"lock_failed_bytes": 1536' '"precision": 0.75' '"recall": 0.25' '"late": 60' '"wasted_bytes": 400000' \
        '"predicted_ns": 1500000000' '"tokens_per_second": 1200.0' '"useful_memory_bytes": 3221225472'; do
        has out "$pair"
    done
done
expect 0 "$fake" bench -m model -p 4 -n 2 -r 1 --json -q
has out '"useful_memory_bytes": null'

# --- profile
rm -f log ./*.sluice-hotlist
FAKE_LOG=log expect 0 "$fake" profile -m model -p hello -f text -n 3
is log 'rewind 0\neval 6\neval 1\neval 1\neval 1\nrewind 0\neval 41\neval 1\neval 1\neval 1\nhotlist 0\n'
is out 'model.sluice-hotlist: 4 of 16 experts, chosen by 53 tokens\n  the first            take       of all choices\n  1                   256 B               45.0 %\n  2                   512 B               70.0 %\n  4                1.00 KiB              100.0 %\n'
is model.sluice-hotlist 'a hotlist\n'
has err 'prefill        47 tokens'
expect 0 "$fake" profile -m model -f text --out list -q # again, and elsewhere
is list 'a hotlist\n'
echo old >list
expect 0 "$fake" profile -m model -p x --out list -q
is list 'a hotlist\n'
rm -f log
printf hello | FAKE_LOG=log "$fake" profile -m model -q >out 2>err
is log 'rewind 0\neval 6\nhotlist 0\n'
rm -f log
FAKE_LOG=log expect 0 "$fake" profile -m model -p abc --chat -q
is log 'rewind 0\neval 9\nhotlist 0\n' # BOS "u:abc\n" "a:"
awk 'BEGIN { for (i = 0; i < 150; i++) printf "a" }' >longer
rm -f log
FAKE_LOG=log expect 0 "$fake" profile -m endless -f longer -q -n 100
{ # longer than the context: in windows; then what fits of the model's own
    printf 'rewind 0\neval 60\nrewind 0\neval 60\nrewind 0\neval 31\n'
    awk 'BEGIN { for (i = 0; i < 29; i++) print "eval 1" }'
    echo 'hotlist 0'
} >want
cmp -s want log || fail "profile: a text longer than the context: $(cat log)"
printf 'dense\nx' >dense
rm -f ./*.sluice-hotlist
expect 2 "$fake" profile -m dense -p x -q
has err 'no routed experts'
expect 2 "$fake" profile -m missing -p '' -q
has err 'the text is empty'
expect 2 "$fake" profile -m missing -p x --out . -q
expect 2 "$fake" profile -m model -p x --out model -q
has err 'the model itself'
expect 2 "$fake" profile -m model -f text --out text -q
has err 'what is to be read'
expect 5 "$fake" profile -m missing -f nowhere -q
expect 5 "$fake" profile -m model -p x --out nowhere/list -q
"$fake" profile -m slow -f longer -q >out 2>err &
pid=$!
sleep 0.3
kill -INT $pid
wait $pid
code=$?
[ $code -eq 130 ] || fail "profile interrupted: exit code $code"
ls ./*.sluice-hotlist* 2>/dev/null && fail 'profile: a list in spite of all that'

# --- completions: they parse, and bash's answers are right
"$fake" help --completion bash >bash.sh
"$fake" help --completion zsh >zsh.sh
"$fake" help --completion fish >fish.sh
for shell in bash zsh fish; do
    command -v $shell >/dev/null || continue
    $shell -n $shell.sh 2>err || fail "$shell does not read its completions: $(cat err)"
done
if command -v fish >/dev/null; then
    touch two.gguf two.txt
    mkdir -p two.folder
    fish -c '. ./fish.sh; complete -C "sluice run -m two"; complete -C "sluice chat two"' 2>err | cut -f 1 | sort -u >out
    is out 'two.folder/\ntwo.gguf\n'
    is err ''
fi
complete_bash() { # WORDS...: what bash offers for the last one
    bash -c '. ./bash.sh; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; echo "${COMPREPLY[*]}"' bash "$@" >out
}
if command -v bash >/dev/null; then
    complete_bash sluice pl
    is out 'plan\n'
    touch one.gguf one.txt
    mkdir -p one.folder
    complete_bash sluice run -m one
    is out 'one.gguf one.folder\n'
    complete_bash sluice chat one
    is out 'one.gguf one.folder\n'
    complete_bash sluice replay one.t
    is out 'one.txt\n'
    complete_bash sluice replay --policy l
    is out 'lru lfu\n'
    complete_bash sluice run --prefetch l
    is out 'lookahead\n'
    complete_bash sluice run --te
    is out '--temp\n'
    complete_bash sluice plan --te
    is out '\n'
    complete_bash sluice run --kv-type q
    is out 'q8_0\n'
    complete_bash sluice run --kv-type = q
    is out 'q8_0\n'
    complete_bash sluice help qua
    is out 'quantize\n'
    complete_bash sluice run -f mod
    is out 'model\n'
fi

[ $failures -eq 0 ] || exit 1
