/*
 * Goal: every option that help lists does what it says, seen from the outside; the table below
 * has a line for each, and none for others.
 */
#include "command_kit.h"

#include <stdbool.h>

#include "gy_test.h"

/*
 * What a line can say:
 *   t OPTION...          trains mlp on the digits, what it prints goes to the file `said`
 *   same OPTION...       ... and gives the bits of the plain training; differs: gives others
 *   $P                   the options of the plain training
 *   g OPTION...          trains a small gpt on the file `big`, n OPTION... any; has TEXT: so
 * says the model's description w OPTION...          writes with a gpt that knows the digits and
 * the line end tells A B            gyre plan A and gyre plan B print different answers m JOB
 * INPUT...       gyre mr into the folder mo, what it prints goes to `said`; `in` has the lines
 * "b a" and "A b", `big` the numbers to 2000; count STAGE: its tasks
 */
static const char words[] =
    "P='-d digits --epochs 2 -b 8'; "
    "t() { rm -rf out; gyre train mlp -q \"$@\" >said 2>&1; }; "
    "g() { rm -rf out; gyre train gpt -q -d big --layers 1 --model-width 8 --heads 2 "
    "--context 8 --steps 3 \"$@\" >said 2>&1; }; "
    "n() { rm -rf out; gyre train gpt -q -d big --steps 1 -b 1 \"$@\" >said 2>&1; }; "
    "has() { head -c 9000 out/gpt/model.safetensors | grep -aq \"$1\"; }; "
    "w() { gyre generate -q written/model.safetensors \"$@\"; }; "
    "v() { [ -e rows ] || awk 'BEGIN { for (i = 0; i < 80; i++) print (i % 3 ? -1 : 1), "
    "(i % 5 + 1) \":1\", (i % 7 + 7) \":0.5\" }' >rows; "
    "gyre ps simulate logistic -d rows \"$@\" >said 2>&1; }; "
    "is_plain() { cmp -s out/mlp/model.safetensors plain; }; same() { t \"$@\" && is_plain; }; "
    "differs() { t \"$@\" && ! is_plain; }; said() { gyre plan $1 | grep -v ^simulated; }; "
    "tells() { a=$(said \"$1\") && b=$(said \"$2\") && "
    "[ -n \"$a\" ] && [ \"$a\" != \"$b\" ]; }; export XDG_STATE_HOME=$PWD/state; "
    "m() { rm -rf mo; gyre mr \"$@\" -o mo >said 2>&1; }; "
    "count() { sed -n \"s/^stage $1: .* of \\([0-9]*\\) tasks.*/\\1/p\" said; }; "
    "[ -e in ] || { printf 'b a\\nA b\\n' >in; seq 2000 >big; }; "
    "[ -e written ] || { g && mv out/gpt written; }; "
    "[ -e plain ] || { t $P && cp out/mlp/model.safetensors plain; }; ";

static const struct {
    const char *command, *option;
    const char *line; /* ends well when the option does what it says */
} cases[] = {
    {"run", "ranks", "[ $(gyre run -n 3 echo x | wc -l) = 3 ]"},
    {"run", "prefix", "gyre run -n 2 --prefix echo x | grep -qx '\\[1\\] x'"},
    {"run", "no-binding",
     "gyre run -n 1 env | grep -q GYRE_CORES && "
     "! gyre run -n 1 --no-binding env | grep -q GYRE_CORES"},
    {"run", "nodes", NULL}, /* several hosts: hosts_test.c */
    {"run", "node", NULL},
    {"run", "rendezvous", NULL},
    {"run", "key", NULL},
    {"run", "plaintext", NULL},
    {"run", "rendezvous-timeout", NULL},
    {"run", "transport",
     "gyre run -n 2 --transport tcp $GYRE_BIN bench allreduce --duration 0.001 | "
     "grep -q 'over 2 ranks'"},
    {"run", "on-failure",
     "gyre run -n 2 --on-failure continue sh -c 'exit $GYRE_RANK' 2>said && grep -q 'rank 1 "
     "ended with status 1; the launch continues' said && ! gyre run -n 2 sh -c 'exit "
     "$GYRE_RANK' 2>said"},
    {"run", "restarts-max",
     "! gyre run -n 1 --on-failure restart --restarts-max 2 sh -c 'echo x; exit 1' >said "
     "2>&1 && [ $(grep -cx x said) = 3 ] && ! gyre run -n 1 --restarts-max 2 true 2>said"},
    {"run", "timeout", "gyre run -n 1 --timeout 0.05 cat /dev/zero >/dev/null; [ $? = 124 ]"},
    {"run", "grace", /* far less than the usual 2 s */
     "begun=$(date +%s%N); gyre run -n 1 --timeout 0.05 --grace 0.05 sh -c 'trap \"\" TERM; "
     "while :; do :; done'; "
     "[ $? = 124 ] && [ $(($(date +%s%N) - begun)) -lt 1900000000 ]"},
    {"run", "pool", /* 16 MiB do not fit */
     "gyre run -n 2 --pool 64 $GYRE_BIN bench allreduce --duration 0.001 >said && "
     "! gyre run -n 2 --pool 1 $GYRE_BIN bench allreduce --duration 0.001 >said 2>&1 && "
     "grep -q 'of 1048576 in use' said"},
    {"run", "record", "gyre run -n 2 --record kept-run true && [ -s kept-run ]"},
    /* A cluster: cluster_gangs_test.c. */
    {"run", "hosts", NULL},
    {"run", "nameservers", NULL},
    {"run", "connect-timeout", NULL},
    {"run", "name", NULL},
    {"run", "weight", NULL},
    {"run", "label", NULL},
    {"run", "folder", NULL},
    {"run", "file", NULL},
    {"run", "env", NULL},
    {"doctor", "recording",
     "gyre run -n 2 --record flight $GYRE_BIN bench allreduce --duration 0.001 >said && "
     "gyre doctor --recording flight | grep -q 'rank 1 .*has left'"},
    {"doctor", "json",
     "gyre run -n 1 --record flight true; gyre doctor --recording flight --json | grep -q "
     "'^{\"program\"'"},
    {"doctor", "check-sandbox",
     "gyre doctor --check-sandbox >parts && [ $(wc -l <parts) = 5 ] && grep -q '^rights *yes' "
     "parts && ! gyre doctor --check-sandbox --json 2>said"},
#include "options_train.def"
    {"generate", "prompt",
     "w --prompt 12 | head -c 2 | grep -qx 12 && [ \"$(w --prompt '')\" = \"$(w)\" ]"},
    {"generate", "length", "[ $(w --length 7 | wc -c) = 8 ] && [ $(w | wc -c) = 501 ]"},
    {"generate", "temperature",
     "[ \"$(w --temperature 0.001)\" = \"$(w --top-k 1)\" ] && "
     "[ \"$(w --temperature 1)\" = \"$(w)\" ]"},
    {"generate", "top-k", "[ \"$(w --top-k 1 --seed 2)\" = \"$(w --top-k 1)\" ]"},
    {"generate", "seed",
     "[ \"$(w --seed 2)\" != \"$(w)\" ] && [ \"$(w --seed 1)\" = \"$(w)\" ]"},
    {"generate", "quiet",
     "w 2>loud >said && [ ! -s loud ] && gyre generate written/model.safetensors 2>loud >said "
     "&& grep -q '^500 characters in .* a second$' loud"},
    {"predict", "probability",
     "i=digits/t10k-images-idx3-ubyte; t $P && gyre predict --probability "
     "out/mlp/model.safetensors $i $i >p && grep -Eq '^digits/.*:0: [0-9]\t[0-9.]+$' p && "
     "cut -f 1 p >plainly && gyre predict out/mlp/model.safetensors $i $i | cmp - plainly"},
    {"predict", "labels", /* the accuracy and loss that the training reported */
     "d=digits/t10k; t $P && gyre predict --labels $d-labels-idx1-ubyte "
     "out/mlp/model.safetensors $d-images-idx3-ubyte >got && "
     "[ \"$(sed -n 's/^test \\(accuracy: .* %\\),/\\1/p' said)\" = "
     "\"$(sed -n 's/^\\(accuracy: .* %\\) of [0-9]*,/\\1/p' got)\" ]"},
    {"plan", "ranks", "tells 'table' 'table -n 16'"},
    {"plan", "algorithm", "tells 'show allreduce -a ring' 'show allreduce -a tree'"},
    {"plan", "operation", "tells 'table' 'table --operation broadcast'"},
    {"plan", "bytes", "tells 'table' 'table --bytes 2MB'"},
    {"plan", "element-bytes", "tells 'table --bytes 4' 'table --bytes 4 --element-bytes 1'"},
    {"plan", "hosts", "tells 'table' 'table --hosts 4'"},
    {"plan", "root", "tells 'show broadcast -a tree' 'show broadcast -a tree --root 2'"},
    {"plan", "chunks", "tells 'show broadcast -a tree' 'show broadcast -a tree --chunks 2'"},
    {"plan", "in-place",
     "tells 'show allgather -a ring -n 2' 'show allgather -a ring -n 2 --in-place'"},
    {"plan", "schedule", "tells pipe 'pipe --schedule gpipe'"},
    {"plan", "stages", "tells pipe 'pipe -p 2'"},
    {"plan", "micro-batches", "tells pipe 'pipe -m 4'"},
    {"plan", "costs", "tells pipe 'pipe --costs 1,2,2,0.5'"},
    {"plan", "lists",
     "[ \"$(gyre plan pipe -p 1 -m 2 --lists computing)\" = 0F0,0B0,0F1,0B1 ] && "
     "gyre plan pipe -p 2 -m 1 --lists all | grep -qx "
     "'0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD'"},
    {"plan", "read",
     "gyre plan pipe --lists all >list && gyre plan pipe --read list | grep -q 'bubble 27.27 "
     "%' && sed -i 's/2B3/2B4/' list && ! gyre plan pipe --read list 2>said && "
     "grep -q 'rank 2 action [0-9]* (2B4)' said"},
    {"plan", "alpha", "tells 'table' 'table --alpha 1e-3'"},
    {"plan", "beta", "tells 'table' 'table --beta 1e-9'"},
    {"plan", "gamma", "tells 'table' 'table --gamma 1e-9'"},
    {"plan", "alpha-across", "tells 'table --hosts 4' 'table --hosts 4 --alpha-across 1e-3'"},
    {"plan", "beta-across", "tells 'table --hosts 4' 'table --hosts 4 --beta-across 1e-9'"},
    {"plan", "exchanges-per-second", "tells 'table' 'table --exchanges-per-second 5'"},
    {"plan", "plan-steps-max", "tells 'table' 'table --plan-steps-max 100'"},
    {"plan", "links", /* prices of the file take the place of those of the line */
     "printf 'gyre links 1\\nlink ring 5 0.02\\n' >links && tells 'table' 'table --links "
     "links'"},
    {"plan", "all", "tells 'table' 'table --all'"},
    {"plan", "csv", "gyre plan table --csv | grep -q '^allreduce,ring,8,'"},
    {"plan", "svg", "gyre plan show allreduce -a ring --svg drawn && grep -q '</svg>' drawn"},
    {"plan", "width",
     "tells 'show allreduce -a ring -n 16' 'show allreduce -a ring -n 16 --width 200'"},
    {"plan", "seed", "r='simulate allreduce -a ring --loss 0.3'; tells \"$r\" \"$r --seed 2\""},
    {"plan", "loss",
     "tells 'simulate allreduce -a ring' 'simulate allreduce -a ring --loss 0.3'"},
    {"plan", "retransmit-timeout",
     "tells 'simulate allreduce -a ring --loss 0.3' 'simulate allreduce -a ring --loss 0.3 "
     "--retransmit-timeout 1'"},
    {"plan", "uplink-beta",
     "tells 'simulate allreduce -a ring --hosts 2' 'simulate allreduce -a ring --hosts 2 "
     "--uplink-beta 1e-8'"},
    {"plan", "fail",
     "! gyre plan simulate allreduce -a ring --fail 1@0 2>said >drawn && "
     "grep -q 'rank 1 failed at 0 s' said"},
    {"tune", "ranks", /* what was measured with other numbers of ranks stays */
     "gyre tune -o table --duration 0.05 && gyre tune -n 3 -o table --duration 0.05 && "
     "grep -q '^take allreduce plain private 2 1 ' table && "
     "grep -q '^take allreduce plain private 3 1 ' table"},
    {"tune", "output",
     "gyre tune -n 2 -o deep/table --duration 0.05 >said && grep -q deep/table said && "
     "! gyre tune -n 2 -o said --duration 0.05 && [ $(grep -c '^table' said) = 1 ]"},
    {"tune", "duration", /* more time reaches more operations; how much more, the load says */
     "gyre tune -n 2 -o short --duration 0.01 && r=1 && for s in 0.3 1 4 16; do rm -f long && "
     "gyre tune -n 2 -o long --duration $s && [ $(grep -c ^take short) -lt $(grep -c ^take "
     "long) ] && "
     "r=0 && break; done; [ $r = 0 ]"},
    {"tune", "transport",
     "gyre tune -n 2 -o wire --duration 0.05 --transport tcp && grep -q '^link loopback' wire "
     "&& "
     "grep -q '^take allreduce plain messages' wire && ! grep -q private wire"},
    {"tune", "print", "gyre tune --print -n 2 | grep -q '^allreduce .*exchange *built in'"},
    {"tune", "hosts", "gyre tune --print -n 6 --hosts 3 | grep -q 'hierarchy:.*model'"},
    {"mr", "output",
     "gyre mr wordcount in -o deep/out 2>said && [ -e deep/out/MANIFEST.json ] && "
     "! gyre mr wordcount in -o deep/out 2>said && grep -q 'deep/out' said && "
     "! gyre mr wordcount in 2>said && grep -q -e --output said"},
    {"mr", "partitions", "m wordcount in -r 3 && [ $(ls mo/part-* | wc -l) = 3 ]"},
    {"mr", "processes", /* spans of so many processes */
     "m wordcount big --split 1KiB -r 1 -p 3 --trace t3 && m wordcount big --split 1KiB -r 1 "
     "-p 1 --trace t1 && pids() { grep -o '\"pid\": *[0-9]*' $1 | sort -u | wc -l; } && "
     "[ $(pids t3) -gt $(pids t1) ]"},
    {"mr", "threads",
     "m wordcount big --split 1KiB -r 1 -p 1 -t 3 --trace t && "
     "[ $(grep -o '\"tid\": *[0-9]*' t | sort -u | wc -l) -ge 2 ]"},
    {"mr", "task-memory", /* a table that does not fit is written and merged */
     "seq 200000 >numbers && m wordcount numbers -s -m 8MiB && "
     "! grep -qx 'counter spills: 0' said && m wordcount numbers -s && "
     "grep -qx 'counter spills: 0' said; r=$?; rm numbers; [ $r = 0 ] && "
     "! gyre mr wordcount in -o mo -m 1 2>said && grep -q 'at least 8MiB' said"},
    {"mr", "split", "m wordcount big -s --split 1KiB && [ $(count map) = 9 ]"},
    {"mr", "map", "m --map 'sed s/$/x/' in && grep -q 'b ax' mo/part-*"},
    {"mr", "reduce",
     "m --map 'tr \" \" \"\\n\"' --reduce 'wc -l' in -r 1 && grep -qx 4 mo/part-*"},
    {"mr", "file",
     "echo s/a/z/ >edit && m --map 'sed -f edit' --file edit in && "
     "grep -q 'b z' mo/part-* && ! m --map 'sed -f edit' in"},
    {"mr", "fixed",
     "m grep . in -F && [ ! -s mo/part-00000 ] && m grep . in && "
     "[ -s mo/part-00000 ]"},
    {"mr", "ignore-case", "m grep a in -i && [ $(cat mo/part-* | wc -l) = 2 ]"},
    {"mr", "invert", "m grep a in -v && [ \"$(cat mo/part-*)\" = 'A b' ]"},
    {"mr", "count", "m grep b in -c && [ \"$(cat mo/part-* | cut -f 2)\" = 2 ]"},
    {"mr", "record-bytes",
     "m sort in --record-bytes 2 -r 1 && [ \"$(cat mo/part-* | tr '\\n' .)\" = 'A a.b.b ' ]"},
    {"mr", "key-offset",
     "m sort in --key-offset 2 -r 1 && "
     "[ \"$(cat mo/part-* | tr '\\n' .)\" = 'b a.A b.' ] && m sort in -r 1 && "
     "[ \"$(cat mo/part-* | tr '\\n' .)\" = 'A b.b a.' ]"},
    {"mr", "key-bytes",
     "printf 'xb\\nxa\\n' >equal && m sort equal --key-bytes 1 -r 1 && "
     "cmp equal mo/part-00000"},
    {"mr", "key-type", /* little-endian 256, then 1 */
     "printf '\\000\\001\\0\\0\\0\\0\\0\\0\\001\\0\\0\\0\\0\\0\\0\\0' >eight && "
     "m sort eight --record-bytes 8 --key-type int64 -r 1 && ! cmp -s eight mo/part-00000 && "
     "m sort eight --record-bytes 8 -r 1 && cmp eight mo/part-00000"},
    {"mr", "field", "m topk in --field 2 && [ \"$(cut -f 1 mo/part-* | tr '\\n' .)\" = a.b. ]"},
    {"mr", "numeric",
     "printf '10\\n9\\n' >tens && m sort tens --numeric && [ $(cat mo/part-* | head -n 1) = 9 "
     "] && "
     "! m sort tens --numeric --key-type bytes"},
    {"mr", "descending",
     "m sort in --descending && [ \"$(cat mo/part-* | tr '\\n' .)\" = 'b a.A b.' ]"},
    {"mr", "separator",
     "printf '1,b\\n2,a\\n' >csv && m sort csv --field 2 --separator , && "
     "[ $(cat mo/part-* | head -n 1) = 2,a ] && ! m sort csv --separator , && "
     "! m sort csv --field 1 --separator ab"},
    {"mr", "sum-field",
     "printf 'x 2\\ny 3\\nx 2\\n' >sums && m topk sums --field 1 --sum-field 2 && "
     "[ \"$(head -n 1 mo/part-*)\" = \"$(printf 'x\\t4')\" ]"},
    {"mr", "top", "m topk big -k 7 && [ $(cat mo/part-* | wc -l) = 7 ]"},
    {"mr", "hot-key", /* the same output, of more tasks */
     "mkdir hot && for i in $(seq 100 199); do echo hot r$((i % 3)) >hot/$i; done && "
     "m index hot -r 4 --split 400 -s --hot-key 20 && grep -q '^stage hot key: ' said && "
     "cat mo/part-* >shared && m index hot -r 4 --split 400 -s && ! grep -q 'hot key' said && "
     "cat mo/part-* | cmp - shared && m index hot -r 4 --split 400 -s --hot-key 0 && "
     "! grep -q 'hot key' said"},
    {"mr", "memo",
     "m wordcount in -s --memo kept && m wordcount in -s --memo kept && "
     "grep -q 'stage map: .*, 1 of them memoised' said"},
    {"mr", "memo-quota", /* that holds nothing: nothing is kept */
     "tight() { m wordcount big -s --memo tight --memo-quota $1; }; tight 1 && tight 1MiB && "
     "grep -q 'stage map: .*, 0 of them memoised' said && tight 1MiB && "
     "grep -q 'stage map: .*, 1 of them memoised' said && ! m wordcount in --memo-quota 1 && "
     "grep -q 'needs --memo' said"},
    {"mr", "folder", "m wordcount in --folder here && [ -e here/id ]"},
    /* Records that crash: jobs_faults_test.c. */
    {"mr", "bad-records-max", NULL},
    {"mr", "record-timeout", NULL},
    {"mr", "backup-after", NULL},
    {"mr", "timeout",
     "! m --map 'sleep 60' in --timeout 0.2 && grep -q 'deadline\\|time' said"},
    {"mr", "heartbeat-timeout", /* its process is stopped once; the default would be 10 s */
     "export M=$PWD/stopped; timeout 8 $GYRE_BIN mr --map '[ -e $M ] || { : >$M; kill -STOP "
     "$PPID; }; cat' "
     "in -o ms --heartbeat-timeout 0.5 2>said && [ $(cat ms/part-* | wc -l) = 2 ]"},
    {"mr", "trace", "m wordcount in --trace t && grep -q traceEvents t"},
    {"mr", "sandbox", /* the same bytes; a file that nobody listed is not there */
     "gyre doctor --check-sandbox >walls && m wordcount in && cat mo/part-* >counts && "
     "m wordcount in --sandbox available && cat mo/part-* | cmp - counts && "
     "! m wordcount in --sandbox wall && grep -q 'expected none, strict' said && "
     "{ ! grep -q '^files *yes' walls || { cp in unlisted && H=$PWD/unlisted && "
     "m --map \"cat $H; true\" in && [ $(cat mo/part-* | wc -l) = 2 ] && "
     "m --map \"cat $H; true\" in --sandbox files && [ $(cat mo/part-* | wc -l) = 0 ] && "
     "m --map \"cat $H\" in --sandbox files,read=$H && [ $(cat mo/part-* | wc -l) = 2 ]; }; }"},
    {"mr", "format", /* raw bytes when told so, refused when they are not of the kind */
     "gzip -c in >packed && m wordcount packed && [ $(cat mo/part-* | wc -l) = 3 ] && "
     "m wordcount packed --format gzip && [ $(cat mo/part-* | wc -l) = 3 ] && "
     "m --map 'cat >/dev/null; printf x' packed --format text && "
     "! m wordcount in --format gzip"},
    {"mr", "hidden",
     "mkdir -p shy && cp in shy/in && cp in shy/.in && m wordcount shy && cp said quietly && "
     "[ $(cat mo/part-* | grep -c '^b.2') = 1 ] && m wordcount shy --hidden && "
     "[ $(cat mo/part-* | grep -c '^b.4') = 1 ] && grep -q -e --hidden quietly"},
    {"mr", "follow-links",
     "mkdir -p tied && cp in tied/in && ln -sf ../in tied/link && m wordcount tied && "
     "cp said quietly && [ $(cat mo/part-* | grep -c '^b.2') = 1 ] && "
     "m wordcount tied --follow-links && [ $(cat mo/part-* | grep -c '^b.4') = 1 ] && "
     "grep -q -e --follow-links quietly"},
    {"mr", "line-end",
     "printf 'b a\\rA b' >mac && m sort mac --line-end any -r 1 && "
     "[ $(cat mo/part-* | wc -l) = 2 ] && m sort mac --line-end lf -r 1 && "
     "[ $(cat mo/part-* | wc -l) = 1 ]"},
    {"mr", "strict",
     "printf 'x 1\\ny -\\n' >dash && m topk dash --field 1 --sum-field 2 && "
     "grep -q 'left out' said && ! m topk dash --field 1 --sum-field 2 --strict"},
    {"mr", "stats",
     "m wordcount in -s && grep -q '^counter map records: ' said && "
     "grep -qx 'counter map emissions: 4' said && "
     "m wordcount in && ! grep -q '^counter' said"},
    {"mr", "quiet", "m wordcount in -q && [ ! -s said ]"},
    {"job", "processes",
     "gyre job run -p 3 env | grep -qx GYRE_JOB_PROCESSES=3 && "
     "! gyre job run -p 0 env 2>said"},
    {"job", "threads", "gyre job run -t 3 env | grep -qx GYRE_JOB_THREADS=3"},
    {"job", "memory-max",
     "gyre job run --memory-max 16MiB env | grep -qx GYRE_JOB_MEMORY=16777216 && "
     "! gyre job run --memory-max 7MiB env 2>said && grep -q 'at least 8MiB' said"},
    {"job", "timeout",
     "! gyre job run --timeout 0.2 $GYRE_BIN mr --map 'sleep 60' in -o to 2>said"},
    {"job", "heartbeat-timeout",
     "gyre job run --heartbeat-timeout 3 env | grep -qx GYRE_JOB_HEARTBEAT_TIMEOUT=3"},
    {"job", "wait-timeout", NULL},
    {"job", "sandbox", "gyre job run --sandbox strict env | grep -qx GYRE_JOB_SANDBOX=strict"},
    {"job", "folder",
     "gyre job run --folder there $GYRE_BIN mr wordcount in -o wf 2>said && "
     "[ -e there/id ]"},
    {"job", "memo",
     "kept() { rm -rf wm; gyre job run --memo store $GYRE_BIN mr wordcount big -o wm -s | "
     "grep -q \"stage map: .*, $1 of them memoised\"; }; "
     "kept 0 2>said && kept 1 2>said && gyre job gc --memo store --quota 0 >said && "
     "kept 0 2>said"},
    {"job", "memo-quota",
     "gyre job run --memo-quota 2MiB env | grep -qx GYRE_JOB_MEMO_BYTES=2097152"},
    {"job", "trace",
     "gyre job run --trace jt $GYRE_BIN mr wordcount in -o wt 2>said && "
     "grep -q traceEvents jt"},
    {"job", "last",
     "m wordcount in && m wordcount in && [ $(gyre job list --last 1 | wc -l) = 2 ]"},
    {"ps", "lead",
     "! gyre ps drain --lead 127.0.0.1:1 --plaintext --wait-timeout 0.1 127.0.0.1:2 2>said && "
     "grep -q 127.0.0.1:1 said && ! gyre ps show --lead 127.0.0.1:1 --plaintext "
     "--connect-timeout 0.1 2>said && grep -q 'no lead of 127.0.0.1:1 answers' said"},
    {"ps", "replicas",
     "rm -f lp l.db*; $GYRE_BIN ps lead --listen 127.0.0.1:0 --plaintext --table sqlite:l.db "
     "--replicas 3 --port-file lp >said & l=$!; until [ -s lp ]; do :; done; "
     "$GYRE_BIN ps serve --listen 127.0.0.1:0 --plaintext --lead $(cat lp) >said & s=$!; "
     "! gyre ps show --lead $(cat lp) --plaintext --connect-timeout 1 2>told; r=$?; kill $s "
     "$l; "
     "wait $s; wait $l && [ $r = 0 ] && grep -q 'to have 3 replicas' told"},
    {"ps", "parts", "! gyre ps lead --parts 65 2>said && grep -q 64 said"},
    {"ps", "lease", "! gyre ps lead --lease 0.01 2>said && grep -q 0.1 said"},
    {"ps", "table",
     "echo nonsense >notable; ! gyre ps lead --listen 127.0.0.1:0 --plaintext --table notable "
     "2>said >told && grep -q notable said"},
    {"ps", "wait-timeout",
     "! gyre ps drain --lead 127.0.0.1:1 --plaintext --wait-timeout 0.1 127.0.0.1:2 2>said && "
     "grep -q 'ps drain' said"},
    {"ps", "table-user", NULL},
    {"ps", "table-password", NULL},
    {"ps", "table-ca", NULL},
    {"ps", "table-cert", NULL},
    {"ps", "table-cert-key", NULL},
    {"ps", "table-plaintext", NULL},
    {"ps", "leader-lease", NULL},
    {"ps", "listen",
     "rm -f pp; $GYRE_BIN ps serve --listen 127.0.0.1:0 --plaintext --port-file pp >said & "
     "s=$!; "
     "until [ -s pp ]; do :; done; gyre ps show --servers $(cat pp) --plaintext | "
     "grep -qx 'no tables'; r=$?; kill $s; wait $s && cmp pp said && [ $r = 0 ]"},
    {"ps", "port-file",
     "! $GYRE_BIN ps serve --listen 127.0.0.1:0 --plaintext --port-file none/pp 2>said >told "
     "&& "
     "grep -q none/pp said"},
    {"ps", "plaintext",
     "! $GYRE_BIN ps serve --listen 192.0.2.1:0 --plaintext 2>said && grep -q loopback said"},
    {"ps", "key",
     "rm -f kr pk; gyre key new kr && $GYRE_BIN ps serve --listen 127.0.0.1:0 --key kr "
     "--port-file "
     "pk "
     ">said & s=$!; until [ -s pk ]; do :; done; gyre ps show --servers $(cat pk) --key kr | "
     "grep -qx 'no tables' && ! gyre ps show --servers $(cat pk) --plaintext "
     "--connect-timeout 0.2 2>told; r=$?; kill $s; wait $s; [ $r = 0 ]"},
    {"ps", "folder",
     "rm -rf fp sf; $GYRE_BIN ps serve --listen 127.0.0.1:0 --plaintext --port-file fp "
     "--folder sf/x >said & s=$!; until [ -s fp ]; do :; done; "
     "! gyre ps save --servers $(cat fp) --plaintext 2>told; r=$?; kill $s; wait $s; "
     "[ $r = 0 ] && [ -d sf/x ] && grep -q 'have no tables' told"},
    {"ps", "output",
     "! gyre ps save --servers 127.0.0.1:1 --plaintext --output ../x 2>said && "
     "grep -q \"name is '../x'\" said"},
    {"ps", "resume",
     "! gyre ps serve --listen 127.0.0.1:0 --plaintext --resume 2>said && "
     "grep -q -e '--resume needs --folder' said && "
     "! gyre ps serve --listen 127.0.0.1:0 --plaintext --resume --folder empty 2>said && "
     "grep -q 'empty has no whole snapshot' said"},
    {"ps", "servers",
     "! gyre ps show --servers 127.0.0.1 --plaintext 2>said && [ $? = 0 ] && grep -q PORT "
     "said"},
    {"ps", "connect-timeout",
     "! gyre ps show --servers 127.0.0.1:1 --plaintext --connect-timeout 0.05 2>said && "
     "grep -q 'server 127.0.0.1:1 is not reached' said"},
    {"ps", "data",
     "v && grep -q '^asp ' said && ! v --data rows && "
     "! gyre ps simulate logistic --data none.libsvm && ! gyre ps simulate lenet --data rows "
     "&& "
     "gyre ps simulate softmax -w 3 -b 6 -d digits --sync bsp,asp >said && "
     "grep -q '^asp ' said && ! gyre ps simulate gpt -d digits"},
    {"ps", "workers", "v --workers 3 && cp said three && v --workers 4 && ! cmp -s said three"},
    {"ps", "sync",
     "v --sync bsp,backup:1 && grep -q '^backup:1 ' said && ! grep -q '^asp' said && "
     "! v --sync ssq && grep -q 'is no rule of consistency' said && "
     "! v --workers 2 --sync backup:2 && grep -q 'backup:2 of 2 workers' said"},
    {"ps", "batch", "v --batch 8 && cp said few && v --batch 64 && ! cmp -s said few"},
    {"ps", "learning-rate",
     "v --learning-rate 0.1 && cp said low && v --learning-rate 0.2 && ! cmp -s said low"},
    {"ps", "seed",
     "v && cp said first && v --seed 1 && cmp said first && v --seed 2 && "
     "! cmp -s said first"},
    {"ps", "csv", "v --csv && grep -q '^bsp,[0-9.]*,1.00,' said"},
    {"ps", "duration", "gyre ps bench --duration 0.001 | grep -q '^push  *16777216 '"},
    {"ps", "stats",
     "gyre ps bench --duration 0.001 --stats | grep -q '^pulls by staleness.* 0: '"},
    {"store", "long",
     "gyre store ls -l in | grep -q '^ *8  20.* in$' && [ $(gyre store ls in) = in ]"},
    {"store", "expand",
     "gzip -c in >in.gz && gyre store cat -x in.gz | cmp - in && ! gyre store cat in.gz | cmp "
     "-s - in"},
    {"store", "no-clobber",
     "gyre store cp in copied && cmp in copied && gyre store cp big copied && "
     "! gyre store cp --no-clobber in copied 2>said && grep -q 'there already' said && cmp big "
     "copied "
     "&& "
     "gyre store cp --no-clobber in fresh && cmp in fresh"},
    {"job", "quota",
     "m wordcount in --folder old && gyre job gc --quota 0 >said && [ ! -e old ]"},
    {"job", "keep-days",
     "! m --map false in --folder bad && [ -e bad/journal ] && "
     "gyre job gc --quota 0 --keep-days 1 && [ -e bad/journal ] && gyre job gc --quota 0 "
     "--keep-days 0 "
     "&& "
     "[ ! -e bad ]"},
    /* A cluster: nameserver_test.c. */
    {"nameserver", "listen", NULL},
    {"nameserver", "key", NULL},
    {"nameserver", "plaintext", NULL},
    {"nameserver", "table", NULL},
    {"nameserver", "table-user", NULL},
    {"nameserver", "table-password", NULL},
    {"nameserver", "table-ca", NULL},
    {"nameserver", "table-cert", NULL},
    {"nameserver", "table-cert-key", NULL},
    {"nameserver", "table-plaintext", NULL},
    {"nameserver", "leader-lease", NULL},
    {"nameserver", "files-folder", NULL},
    {"nameserver", "files-max", NULL},
    {"nameserver", "port-file", NULL},
    {"nameserver", "page", NULL},
    {"nameserver", "page-token", NULL},
    {"nameserver", "heartbeat-timeout", NULL},
    {"nameserver", "slot-lease", NULL},
    {"nameserver", "preemption-delay", NULL},
    {"nameserver", "preemption-grace", NULL},
    {"nameserver", "gang-preemption-exempt", NULL},
    {"nameserver", "manager-start-timeout", NULL},
    {"nameserver", "manager-attempts-max", NULL},
    {"nameserver", "managers-max", NULL},
    {"nameserver", "daemons-max", NULL},
    {"nameserver", "jobs-max", NULL},
    {"nameserver", "finished-jobs-max", NULL},
    {"daemon", "nameservers", NULL},
    {"daemon", "listen", NULL},
    {"daemon", "work-folder", NULL},
    {"daemon", "key", NULL},
    {"daemon", "plaintext", NULL},
    {"daemon", "slots", NULL},
    {"daemon", "memory-max", NULL},
    {"daemon", "disk-free-min", NULL},
    {"daemon", "files-max", NULL},
    {"daemon", "orphan-retention", NULL},
    {"daemon", "hostname", NULL},
    {"daemon", "host-labels", NULL},
    {"daemon", "port-file", NULL},
    {"daemon", "sandbox", NULL}, /* host_test.c */
    {"cluster", "nameservers", NULL},
    {"cluster", "key", NULL},
    {"cluster", "plaintext", NULL},
    {"cluster", "connect-timeout", NULL},
    {"cluster", "undo", NULL},
    {"job", "nameservers", NULL},
    {"job", "key", NULL},
    {"job", "plaintext", NULL},
    {"job", "connect-timeout", NULL},
    {"job", "name", NULL},
    {"job", "weight", NULL},
    {"job", "slots-max", NULL},
    {"job", "label", NULL},
    {"job", "file", NULL},
    {"job", "env", NULL},
    {"job", "journal", NULL}, /* cluster_storage_test.c */
    {"job", "no-wait", NULL},
    {"bench", "ranks", "gyre bench allreduce -n 2 --duration 0.001 | grep -q 'over 2 ranks'"},
    {"bench", "duration", /* the time of a line */
     "begun=$(date +%s%N); gyre bench engine --duration 0.6 >said; "
     "[ $(($(date +%s%N) - begun)) -ge 600000000 ]"},
    /* What each gives is in query_test.c. */
    {"query", "file",
     "echo 'select 7 as x' >q.sql && gyre query -f q.sql --format csv | grep -qx 7"},
    {"query", "tables",
     "printf 'a\\n5\\n' >tab.csv && gyre query --tables . --format csv 'select a from tab' | "
     "grep -qx 5"},
    {"query", "format", "[ \"$(gyre query --format json 'select 1 as a')\" = '{\"a\":1}' ]"},
    {"query", "output", "gyre query -o q.out 'select 1 as a' && grep -qx 1 q.out"},
    {"query", "workers", "gyre query -w 2 --format csv 'select 1 as a' | grep -qx 1"},
    {"query", "memory",
     "seq 60000 >k.csv; gyre query --memory 300KiB --stats --format csv 'select count(*) from "
     "(select distinct \"1\" from \"k.csv\") s' 2>said && grep -Eq 'spilled .* in [1-9]' said"},
    {"query", "explain",
     "gyre query --explain 'select 1 as a' | grep -q '^project 1 as a  (about 1 rows)$'"},
    {"query", "stats",
     "gyre query --stats 'select 1 as a' 2>&1 >/dev/null | grep -q ' 1 rows '"},
    /* What a job does is in query_jobs_test.c. */
    {"query", "processes",
     "gyre query -p 2 --stats 'select 1 as a' 2>&1 | grep -q '^stage 0: 1 vertex, 1 ran'"},
    {"query", "split",
     "seq 99 >s.csv; gyre query -p 1 --split 64 --stats 'select count(*) from \"s.csv\"' 2>&1 "
     "| "
     "grep -q '^stage 0: 5 vertices'"},
    {"query", "memo",
     "gyre query --memo kq 'select 1 as a' && gyre query --memo kq --stats 'select 1 as a' "
     "2>&1 "
     "| grep -q '1 remembered'"},
    {"query", "memo-quota",
     "gyre query --memo quotq --memo-quota 1 'select 1 as a' && gyre query --memo quotq "
     "--stats "
     "'select 1 as a' 2>&1 | grep -q ', 0 remembered' && ! gyre query --memo-quota 1 'select "
     "1'"},
    {"query", "timeout", "! gyre query -p 1 --timeout 0.001 'select 1 as a'"},
    {"query", "heartbeat-timeout", NULL}, /* as of mr */
    {"query", "watch",                    /* query_jobs_test.c */
     "! gyre query --watch 1 'select nme' && ! gyre query --watch 1 --explain 'select 1'"},
    {"query", "folder", "gyre query -p 1 --folder hq 'select 1 as a' && [ -e hq/id ]"},
    {"query", "trace", "gyre query -p 1 --trace tq 'select 1 as a' && grep -q traceEvents tq"},
    {"query", "sandbox",
     "gyre query -p 1 --sandbox available --format csv 'select 1 as a' | grep -qx 1 && ! gyre "
     "query -p 1 --sandbox wall 'select 1'"},
};

GY_TEST(every_option_does_what_it_says)
{
    char line[3072];
    size_t count = 0, left_out = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].line == NULL) {
            continue;
        }
        if (!gy_test_takes(count++)) {
            left_out++;
            continue;
        }
        snprintf(line, sizeof(line), "%s%s", words, cases[i].line);
        int status = shell(line);
        if (status != 0) {
            fail_msg("gyre %s --%s: '%s' ended with %d: %s", cases[i].command, cases[i].option,
                     cases[i].line, status, output);
        }
    }
    gy_test_left_out("options of commands", left_out, count);
}

/* `gyre key` has verbs without options: each line ends well. */
GY_TEST(keys_are_made_and_changed)
{
    static const char *const lines[] = {
        "export XDG_CONFIG_HOME=$PWD/conf; rm -rf conf; "
        "[ \"$(gyre key)\" = $PWD/conf/gyre/key ] && ! gyre key 2>said && "
        "grep -q 'never overwritten' said && [ $(stat -c %a conf/gyre/key) = 600 ]",
        "rm -f k1 k2; gyre key k1 >said && gyre key new k2 && grep -qx k1 said && ! cmp -s k1 "
        "k2",
        "export XDG_CONFIG_HOME=$PWD/conf; gyre key rotate | grep -q 'epoch 2 is new' && "
        "gyre key show >said && sed -n 1p said | grep -q '/conf/gyre/key: mode 0600' && "
        "tail -n +2 said | sed 's/^epoch [12]: all roles$/x/' | xargs | grep -qx 'x x'",
        "export XDG_CONFIG_HOME=$PWD/conf; gyre key retire 1 && "
        "[ \"$(gyre key show | tail -n 1)\" = 'epoch 2: all roles' ] && ! gyre key retire 2 "
        "2>said "
        "&& grep -q 'the only one' said",
        "rm -f d m; gyre key derive daemon,manager d k1 && gyre key show d | "
        "grep -qx 'epoch 1: manager' && gyre key derive manager/job-1 m d && "
        "gyre key show m | tail -n +2 | grep -qx 'epoch 1: manager/job-1' && "
        "! gyre key derive submitter s m 2>said && grep -q 'no key from which' said",
        /* No key is ever said. */
        "k=$(cut -d' ' -f2 k1 | cut -c 1-16); for v in show rotate; do gyre key $v k1; done "
        ">said "
        "2>&1; echo \"1 x $k\" >>k1; ! gyre key show k1 >>said 2>&1; ! grep -q $k said",
        "gyre key retire x k1 2>said; [ $? = 2 ] && gyre key derive king/x s k1 2>said; [ $? = "
        "2 ] "
        "&& gyre key derive daemon 2>said; [ $? = 2 ] && gyre key show a b 2>said; [ $? = 2 ] "
        "&& "
        "gyre key a b 2>said; [ $? = 2 ]",
        /* The doctor says what it is like. */
        "export XDG_CONFIG_HOME=$PWD/conf; gyre doctor 1 2>&1 >said; grep -q '^key: "
        ".*/conf/gyre/key, mode 0600, epoch 2$' said && chmod 640 conf/gyre/key && gyre doctor "
        "1 2>&1 >said; grep -q '^key: invalid: .*mode 0640' said && rm conf/gyre/key && gyre "
        "doctor 1 2>&1 >said; grep -q '^key: none at .*/conf/gyre/key ' said && gyre key "
        "derive daemon,manager conf/gyre/key k2 && gyre doctor 1 2>&1 >said; grep -q 'epoch 1, "
        "of roles only: daemon, manager$' said",
    };
    char line[3072];
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        snprintf(line, sizeof(line), "%s%s", words, lines[i]);
        int status = shell(line);
        if (status != 0) {
            fail_msg("'%s' ended with %d: %s", lines[i], status, output);
        }
    }
}

GY_TEST(every_option_of_help_has_a_line)
{
    size_t found = 0;
    assert_int_equal(
        shell("for c in run train predict generate info bench plan tune doctor mr query "
              "nameserver daemon; do "
              "gyre "
              "help $c | "
              "sed -n \"s/^  \\(-., \\)\\{0,1\\}--\\([a-z-]*\\).*/$c \\2/p\"; done; "
              "for v in run submit wait list show kill resume gc; do gyre job $v --help | "
              "sed -n \"s/^  \\(-., \\)\\{0,1\\}--\\([a-z-]*\\).*/job \\2/p\"; done | sort -u; "
              "for v in list drain; do gyre cluster $v --help | "
              "sed -n \"s/^  \\(-., \\)\\{0,1\\}--\\([a-z-]*\\).*/cluster \\2/p\"; done | sort "
              "-u; "
              "for v in serve lead drain save show bench simulate; do gyre ps $v --help | "
              "sed -n \"s/^  \\(-., \\)\\{0,1\\}--\\([a-z-]*\\).*/ps \\2/p\"; done | sort -u; "
              "for v in ls cat cp; do gyre store $v --help | "
              "sed -n \"s/^  \\(-., \\)\\{0,1\\}--\\([a-z-]*\\).*/store \\2/p\"; done; "
              "gyre --help | sed -n 's/^  \\([a-z][a-z]*\\) .*/command \\1/p'"),
        0);
    char *rest = NULL;
    for (char *line = strtok_r(output, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        bool is_known = strcmp(line, "command info") == 0 ||
                        strcmp(line, "command help") == 0 || strcmp(line, "command key") == 0 ||
                        strcmp(line, "command script") == 0; /* script_test.c */
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            char option[64], command[64];
            snprintf(option, sizeof(option), "%s %s", cases[i].command, cases[i].option);
            snprintf(command, sizeof(command), "command %s", cases[i].command);
            found += strcmp(line, option) == 0 ? 1 : 0;
            is_known = is_known || strcmp(line, option) == 0 || strcmp(line, command) == 0;
        }
        if (!is_known) {
            fail_msg("no line of the table above is about '%s'", line);
        }
    }
    assert_int_equal(found, sizeof(cases) / sizeof(cases[0]));
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
