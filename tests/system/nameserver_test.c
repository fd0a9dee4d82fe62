/*
 * Goal: the options of `gyre nameserver`, and what `gyre job` and `gyre cluster` ask it, do
 * what they say: the commands as a user types them, and scripted daemons and managers.
 */
#include "cluster/server/server_test.h"

#include "command_kit.h"

/* ---- The commands ---- */

/*
 *   up OPTION...   a name server of this folder, until `down`; $N: the options to ask it
 *   sub WORD...    gyre job submit, detached; its id
 *   host OPTION... a daemon of the folder df, until `off`; `known` once the name server lists
 * it
 */
static const char words[] =
    "up() { rm -f port; [ $# -gt 0 ] && case \"$*\" in *--key*) K=\"--key ring\";; "
    "*) K=--plaintext; set -- \"$@\" --plaintext;; esac; "
    "timeout --foreground -k 5 60 $GYRE_BIN nameserver --listen 127.0.0.1:0 --port-file port "
    "\"$@\" "
    ">ns 2>&1 & "
    "ns=$!; "
    "i=0; until [ -s port ] || [ $i = 1000 ]; do i=$((i+1)); sleep 0.01; done; "
    "N=\"--nameservers 127.0.0.1:1,$(cat port) $K\"; [ -s port ]; }; "
    "down() { r=$?; kill $ns; wait $ns && return $r; }; "
    "sub() { gyre job submit $N --no-wait \"$@\"; }; "
    "host() { rm -f dport; timeout --foreground -k 5 60 $GYRE_BIN daemon $N --listen "
    "127.0.0.1:0 --work-folder "
    "df "
    "--port-file dport \"$@\" >dd 2>&1 & d=$!; }; off() { r=$?; kill $d; wait $d && return $r; "
    "}; "
    "known() { i=0; until gyre cluster list $N | grep -q \"$1\" || [ $i = 500 ]; do "
    "i=$((i+1)); sleep 0.01; done; gyre cluster list $N | grep -q \"$1\"; }; "
    "[ -e prog ] || { printf '#!/bin/sh\\n' >prog; chmod 755 prog; }; ";

static const char *const lines[] = {
    /* nameserver: listen, port-file, plaintext, table */
    "up --table t && grep -qx \"$(cat port)\" ns && gyre job list $N | grep -q state && down "
    "&& "
    "[ -s t ] && ! gyre job list $N --connect-timeout 0.1 2>said >out && grep -q 'no name "
    "server "
    "answers' "
    "said && ! gyre cluster list $N --connect-timeout 0.1 2>said >>out && [ ! -s out ]",
    "! gyre nameserver --listen 0.0.0.0:0 --plaintext --table t 2>said && grep -q loopback "
    "said",
    /* key */
    "gyre key new ring && up --table sqlite:t --key ring && gyre job list $N && "
    "! gyre job list --nameservers $(cat port) --plaintext --connect-timeout 0.1 2>said && "
    "gyre key derive watcher seer ring && W=\"--nameservers $(cat port) --key seer\" && "
    "gyre job list $W && gyre cluster list $W && ! gyre job submit $W ./prog 2>said && "
    "grep -q 'watcher' said && gyre key derive daemon none ring && "
    "! gyre job list --nameservers $(cat port) --key none 2>said && "
    "grep -q 'no key of a submitter' said && down",
    /* who may submit may not drain; an operator may, and nothing more */
    "up --table o --key ring && host && known ' up ' && "
    "gyre key derive submitter user ring && gyre key derive operator op ring && "
    "A=\"--nameservers $(cat port)\" && h=$(gyre cluster list $A --key user | sed -n '2s/ "
    ".*//p') && "
    "! gyre cluster drain $A --key user $h 2>said && grep -q 'no key of an operator' said && "
    "gyre cluster drain $A --key op $h && known drained && "
    "! gyre job submit $A --key op ./prog 2>said && grep -q 'no key of a submitter' said && "
    "gyre cluster drain $A --key ring --undo $h && known ' up '; off; down",
    /* names */
    "for n in x 127.0.0.1:0 127.0.0.1:65536 a:1,,b:2 $(printf %0255d:1 7); do "
    "! gyre job list --plaintext --nameservers $n 2>said && grep -q 'address' said && "
    "! gyre daemon --plaintext --nameservers $n --listen 127.0.0.1:0 --work-folder df 2>said "
    "&& "
    "grep -q 'address' said || exit 1; done",
    /* without a key nobody is called on another host: at once */
    "gyre job list --plaintext --nameservers 127.0.0.1:1,10.9.9.9:5 --connect-timeout 90 "
    "2>said; [ $? = 2 ] "
    "&& grep -q '10.9.9.9:5 is not on the loopback' said && "
    "{ gyre daemon --plaintext --nameservers 10.9.9.9:5 --listen 127.0.0.1:0 --work-folder df "
    "2>said; "
    "[ $? = 2 ]; } && grep -q 'not on the loopback' said",
    /* a daemon that nobody takes says why, without being asked to */
    "timeout 60 $GYRE_BIN daemon --plaintext --nameservers 127.0.0.1:1 --listen 127.0.0.1:0 "
    "--work-folder alone >dd 2>&1 & d=$!; i=0; until grep -q 'no name server accepts this "
    "daemon: 127.0.0.1:1: .*refused' dd || [ $i = 2000 ]; do i=$((i+1)); sleep 0.01; done; "
    "kill $d; [ $i != 2000 ]",
    /* wrong usage: 2, the option, and nothing is made */
    "bad() { w=$1; shift; timeout 10 $GYRE_BIN \"$@\" >said 2>&1; r=$?; [ $r = 2 ] && "
    "grep -q -e \"$w\" said && [ $(wc -l <said) = 1 ] || { echo \"$r $*\"; cat said; exit 1; "
    "}; }; D=\"daemon --plaintext --work-folder no\"; S=\"nameserver --plaintext\"; "
    "J='job submit --plaintext --nameservers 127.0.0.1:1'; L=127.0.0.1:0; "
    "bad listen $D --nameservers a:1 --listen 127.0.0.1:99999; "
    "for n in foo :1 127.0.0.1 h:99999; do bad names $D --nameservers $n --listen $L; "
    "bad names job list --plaintext --nameservers $n; "
    "bad names run --plaintext --hosts 2 --nameservers $n ./prog; done; "
    "bad loopback $D --nameservers 192.0.2.1:7 --listen $L; "
    "bad sandbox $D --nameservers a:1 --listen $L --sandbox bogus; "
    "for n in a,,b ,a a,; do bad labels $D --nameservers a:1 --listen $L --host-labels $n; "
    "done; "
    "bad '[-]-hostname' $D --nameservers a:1 --listen $L --hostname bad/host; "
    "bad listen $S --table no --listen 127.0.0.1:99999; "
    "bad table $S --listen $L --table foo:bar; "
    "bad page $S --listen $L --table no --page 0.0.0.0:99999; "
    "bad page-token $S --listen $L --table no --page-token f; "
    "bad table-user $S --listen $L --table no --table-user u; "
    "bad label $J --label a,b ./prog; bad env $J -e =x ./prog; "
    "bad /nonexist $J -f /nonexist ./prog; [ ! -e foo:bar.files ] && [ ! -e no.files ] && "
    "mkdir -p pre/trash && bad 'pre holds files of others' daemon --plaintext --nameservers "
    "127.0.0.1:1 --listen $L --work-folder pre && [ -e pre/trash ]",
    /* port-file */
    "for c in 'nameserver --table pf' 'daemon --nameservers 127.0.0.1:1 --work-folder pfd'; do "
    "timeout 20 $GYRE_BIN $c --plaintext --listen 127.0.0.1:0 --port-file /no/port 2>said; "
    "[ $? = 1 ] && grep -q '/no/port' said || exit 1; done",
    /* one that waits knows the port that was chosen, and takes over at its own */
    "up --table two && { timeout 60 $GYRE_BIN nameserver --listen 127.0.0.1:0 --plaintext "
    "--table "
    "two "
    ">ns2 2>&1 & s=$!; }; i=0; until grep -q 'is the leader' ns2 || [ $i = 2000 ]; do "
    "i=$((i+1)); sleep 0.01; done; grep -q \"the name server at $(cat port) is the leader\" "
    "ns2; "
    "r=$?; down; kill $s; wait $s; [ $r = 0 ]",
    /* files, files-limit */
    "up --table t --files-folder there && sub ./prog && [ $(ls there | wc -l) = 2 ] && down && "
    "up --table t --files-folder less --files-max 10 && ! sub ./prog 2>said; down && "
    "grep -q 'no room' said",
    /* page, page-token */
    "get() { python3 -c \"import urllib.request as r; print(r.urlopen(r.Request('$1/metrics', "
    "headers={'Authorization': 'Bearer ' + open('$2').read().strip()})).read().decode())\"; }; "
    "page() { sed -n 's,^status page: \\(http://[^/]*\\)/$,\\1,p' ns; }; "
    "up --table p --page 127.0.0.1:0 && [ $(stat -c %a p.token) = 600 ] && "
    "get $(page) p.token | grep -qx 'gyre_nameserver_elected 1' && "
    "grep -q 'TOKEN is in .*p.token$' ns && ! grep -qf p.token ns && down && "
    "up --table p --page 0 --page-token mine && get $(page) mine >said && "
    "! get $(page) p.token 2>said && grep -q 401 said; down && "
    "! gyre nameserver --listen 127.0.0.1:0 --plaintext --table p --page nowhere 2>said && "
    "grep -q 'no address' said && "
    "! gyre nameserver --listen 127.0.0.1:0 --plaintext --table p --page-token f 2>said && "
    "grep -q 'needs a status page' said",
    /* table-*: those of etcd */
    "e() { ! gyre nameserver --listen 127.0.0.1:0 --plaintext --table "
    "etcd:https://127.0.0.1:1/x "
    "\"$@\" 2>said && cat said; }; e | grep -q 'folder for the files' && "
    "printf pass >open && chmod 644 open && "
    "e --files-folder f --table-user u --table-password open | grep -q open && "
    "e --files-folder f --table-cert prog | grep -qi key",
    /* table-plaintext: no user beyond the loopback, and nothing where it was not asked for */
    "e() { gyre nameserver --listen 127.0.0.1:0 --plaintext --files-folder f --table "
    "etcd:http://10.9.9.1:2379/x \"$@\" 2>said; [ $? = 2 ]; }; printf pass >own && chmod 600 "
    "own && e && grep -q 'expected .etcd:https' said && "
    "e --table-plaintext --table-user u --table-password own && "
    "grep -q 'user and password would cross' said",
    /* table-lease */
    "! gyre nameserver --listen 127.0.0.1:0 --plaintext --table t --leader-lease 0 2>said",
    /* jobs, ended */
    "up --table t2 --jobs-max 1 --finished-jobs-max 1 && a=$(sub ./prog) && ! sub ./prog "
    "2>said && "
    "grep -q 'open already' said && gyre job kill $N $a && ! gyre job wait $N $a 2>said && "
    "grep -q 'killed by its user' said && b=$(sub ./prog) && gyre job kill $N $b && "
    "! gyre job wait $N $b 2>said && [ $(gyre job list $N | wc -l) = 2 ] && "
    "! gyre job kill $N $b 2>said && grep -q 'has ended' said && "
    "! sub -e GYRE_TICKET=x ./prog 2>said && grep -q GYRE_TICKET said; down",
    /* job: name, weight, slots, label, file, env, no-wait, timeout, show, list */
    "up --table t3 --files-folder f3 && echo >side && a=$(sub --name words --weight 7 "
    "--slots-max 3 "
    "--label gpu -f side -e X=yes ./prog in) && gyre job show $N $a >said && "
    "grep -q 'words' said && grep -qx 'weight   7' said && grep -al X=yes f3/* >spec && "
    "grep -aq side $(cat spec) && [ $(ls f3 | wc -l) = 3 ] && "
    "{ gyre job wait $N --wait-timeout 0.05 $a 2>said; [ $? = 124 ]; } && "
    "{ gyre job submit $N --wait-timeout 0.05 ./prog >said 2>&1; [ $? = 124 ]; } && "
    "[ $(gyre job list $N | wc -l) = 3 ] && ! gyre job show $N nobody 2>said; down",
    "! gyre job list --plaintext 2>said && grep -q -- --nameservers said && "
    "! gyre job list --plaintext --nameservers 127.0.0.1:1 --last 5 2>said && grep -q -- "
    "--last said && "
    "! gyre job submit ./prog 2>said && grep -q -- --nameservers said",
    /* daemon, cluster drain and undo: a job of a program that ends, well and not */
    "printf '#!/bin/sh\necho it is bad >&2\nexit 3\n' >bad; chmod 755 bad; up --table t5 && "
    "host --slots 3 --hostname alpha --host-labels gpu,fast && known 'alpha *gpu,fast' && [ -s "
    "dport ] && [ -d df/jobs ] && known \" 0/3 .* $(cat dport) \" && gyre job submit $N "
    "--label fast ./prog >said && a=$(sub --label slow ./prog) && gyre job show $N $a | grep "
    "-qx 'reason   no daemon can run its manager: 1 without the label' && gyre job kill $N $a "
    "&& ! gyre job submit $N ./bad 2>said >id && grep -qx 'it is bad' id && grep -qx 'gyre job "
    "submit: job .* failed: exit status 3' said && [ $(wc -l <said) = 1 ] && gyre job show $N "
    "$(head -n 1 id) | grep -q '^reason   exit status 3: it is bad$' && printf "
    "'#!/bin/sh\nkill -9 $$\n' >crash; chmod 755 crash; ! gyre job submit $N ./crash 2>said "
    ">id && grep -q 'last one was killed by SIGKILL' said && printf '#!/bin/sh\nprintf %%0300d "
    "7 >&2\nexit 3\n' >much; chmod 755 much; ! gyre job submit $N ./much 2>said >id && gyre "
    "job list $N | grep -q '000[.][.][.]$' && gyre cluster drain $N alpha && known drained && "
    "gyre cluster drain $N --undo alpha && known ' up '; off && known lost; down",
    "! gyre daemon --plaintext --nameservers a:1 --listen 127.0.0.1:0 --work-folder df "
    "--memory-max 1 2>said "
    "&& "
    "! gyre daemon --plaintext --nameservers a:1 --listen 127.0.0.1:0 --work-folder df "
    "--host-labels "
    "\"$(printf 'a\\nb')\" 2>said && grep -q 'the byte 10' said",
    /* another address for that of a name server */
    "up --table t8 && host && known ' up ' && D=$(cat dport) && P=--plaintext && "
    "! gyre job list $P --nameservers $D 2>said && "
    "grep -q '^gyre job list: daemon .* at .* is no name server: expected the address' said && "
    "! gyre cluster list $P --nameservers 127.0.0.1:1,$D --connect-timeout 0.2 2>said && "
    "grep -q 'is no name server' said && "
    "{ timeout 60 $GYRE_BIN daemon $P --nameservers $D --listen 127.0.0.1:0 --work-folder df2 "
    ">dd2 2>&1 & "
    "}; "
    "e=$!; i=0; until grep -q 'daemon .* is no name server' dd2 || [ $i = 2000 ]; do "
    "i=$((i+1)); sleep 0.01; done; kill $e; [ $i != 2000 ] && "
    "{ printf 'GET / HTTP/1.0\\r\\n\\r\\n'; cat /dev/zero | head -c 64; } | "
    "timeout 5 python3 -c 'import socket, sys; h, p = sys.argv[1].split(\":\"); "
    "s = socket.create_connection((h, int(p))); s.sendall(sys.stdin.buffer.read()); s.recv(9)' "
    "$(cat port); grep -q 'no frame but HTTP' ns; r=$?; off; [ $r = 0 ]; down",
    /* what runs is a job's name; what is missing is named; log tail are told once */
    "up --table t9 && host && known ' up ' && printf 'exit 3' >x.sh && printf 1 >data && ! "
    "gyre job submit $N -- $GYRE_BIN mr topk /nothing -o /nowhere/x >id 2>said && gyre job "
    "list $N | grep -q ' mr topk  ' && [ $(grep -c nothing id said | awk -F: '{ n += $2 } END "
    "{ print n }') = 1 ] && ! gyre job submit $N -f x.sh -- /bin/sh x.sh >id 2>said && gyre "
    "job list $N | grep -q ' sh x.sh  .*exit status 3: it printed nothing$' && grep -q "
    "'failed: exit status 3: it printed nothing$' said && ! gyre job submit $N -- /bin/sh -c "
    "'cat data' >id 2>said && grep -q 'data is missing in .*: add --file data' said && ! gyre "
    "job submit $N -- $GYRE_BIN mr wordcount data --bogus >id 2>said && ! grep brought said && "
    "! gyre job submit $N -- $GYRE_BIN mr --map 'sh no.sh' data -o out >id 2>said && ! grep "
    "brought said && ! gyre job submit $N -- $GYRE_BIN mr -q --map 'tr a b' data -o - >id "
    "2>said && gyre job list $N | grep -q ' mr tr a b  ' && ! gyre job submit $N --name "
    "\"$(printf 'a\\033[31mb')\" -- /bin/sh -c 'printf \"w\\\\033[2J\\\\303\\\\244\\\\n\" >&2; "
    "exit 3' >id 2>said && { gyre job list $N; gyre job show $N $(head -n 1 id); cat said; } "
    ">all && ! grep \"$(printf '\\033')\" all && grep -q 'w.*.2J' all; r=$?; off; [ $r = 0 ]; "
    "down",
    "up --table t6 --key ring && host "
    "--disk-free-min 1TiB && known trouble; off; down",
    /* managers: one of two jobs waits while the other one's runs */
    "printf '#!/bin/sh\nuntil [ -e go ]; do sleep 0.02; done\n' >long; chmod 755 long; "
    "waits() { { gyre job show $N $a; gyre job show $N $b; } | grep -q 'with managers enough'; "
    "}; up --table t7 --managers-max 1 && host --slots 3 && a=$(sub ./long) && b=$(sub ./long) "
    "&& "
    "{ i=0; until waits || [ $i = 500 ]; do i=$((i+1)); sleep 0.01; done; waits; } && "
    "touch go && gyre job wait $N $a && gyre job wait $N $b; off; down",
    /* cluster */
    "up --table t4 && gyre cluster list $N | grep -q managers && "
    "! gyre cluster drain $N nobody 2>said && grep -q \"no daemon 'nobody'\" said; down",
};

GY_TEST(commands_do_what_they_say)
{
    char line[3072];
    for (size_t i = 0; i < GY_COUNT(lines); i++) {
        snprintf(line, sizeof(line), "%s%s", words, lines[i]);
        int status = shell(line);
        if (status != 0) {
            fail_msg("'%s' ended with %d: %s", lines[i], status, output);
        }
    }
}

/* ---- Its limits of time, as daemons and managers see them ---- */

static kit_server server;
static kit_agent user, daemons[2], managers[2];
static kit_agent *agents[] = {&user, &daemons[0], &daemons[1], &managers[0], &managers[1]};

static void begin_server(const char *const *options)
{
    kit_server_make(&server);
    server.command = options;
    kit_server_start(&server);
    kit_agent_open(&user, &server, GY_RPC_SUBMITTER, NULL);
}

/* A job of a program of the system; its key. */
static gy_key submit_job(void)
{
    gy_cluster *cluster = NULL;
    char id[GY_CLUSTER_ID_BYTES];
    unsigned long long high = 0, low = 0;
    const char *arguments[] = {"true", NULL};
    assert_ok(gy_cluster_open(
        &(gy_cluster_options){.nameservers = server.address, .key_file = server.ring},
        &cluster));
    assert_ok(gy_cluster_submit(
        cluster, &(gy_cluster_program){.arguments = arguments, .label = "gpu"}, id));
    gy_cluster_close(cluster);
    assert_int_equal(sscanf(id, "%16llx%16llx", &high, &low), 2);
    return (gy_key){high, low};
}

typedef struct shown {
    int daemons, lost, failed;
    char reason[128];
} shown;

static gy_status check_daemon(void *arg, const gy_cluster_daemon *daemon)
{
    shown *at = arg;
    at->daemons++;
    at->lost += !daemon->is_up;
    return GY_OK;
}

static gy_status look_at_job(void *arg, const gy_cluster_job *job)
{
    shown *at = arg;
    at->failed += job->is_finished;
    snprintf(at->reason, sizeof(at->reason), "%s", job->reason);
    return GY_OK;
}

static shown look(void)
{
    gy_cluster *cluster = NULL;
    shown at = {0};
    const gy_cluster_visit visit = {.job = look_at_job, .daemon = check_daemon, .arg = &at};
    assert_ok(gy_cluster_open(
        &(gy_cluster_options){.nameservers = server.address, .key_file = server.ring},
        &cluster));
    assert_ok(gy_cluster_list(cluster, &visit));
    gy_cluster_close(cluster);
    return at;
}

/* One of two daemons is taken; it is lost soon; a manager that is not heard is replaced once.
 */
GY_TEST(dead_start_attempts_and_daemons)
{
    static const char *const patient[] = {"--heartbeat-timeout",
                                          "60",
                                          "--manager-start-timeout",
                                          "0.3",
                                          "--manager-attempts-max",
                                          "2",
                                          "--daemons-max",
                                          "1",
                                          NULL};
    static const char *const hasty[] = {"--heartbeat-timeout", "0.3", NULL};
    begin_server(patient);
    kit_daemon_open(&daemons[0], &server, 7, 2);
    KIT_UNTIL(agents, 2, daemons[0].state.sequence > 2);
    kit_daemon_open(&daemons[1], &server, 8, 2);
    KIT_UNTIL(agents, 3, daemons[1].state.sequence > 2);
    shown at = look();
    assert_int_equal(at.daemons, 1);
    kit_agent_close(&daemons[1]);
    (void)submit_job();
    KIT_UNTIL(agents, 2, daemons[0].starts == 2 && look().failed == 1);
    at = look();
    assert_string_equal(at.reason,
                        "2 managers in a row ended early: the last one did not register");
    assert_int_equal(at.lost, 0);
    (void)kit_server_end(&server, SIGTERM);
    server.command = hasty;
    kit_server_start(&server);
    KIT_UNTIL(agents, 2, look().daemons == 1);
    kit_agent_close(&daemons[0]);
    KIT_UNTIL(agents, 1, look().lost == 1);
    kit_agent_close(&user);
    kit_server_remove(&server);
}

/* Who does not release what is asked of him loses it: a gang, as soon as it may be asked. */
GY_TEST(patience_grace_and_gang_hold)
{
    static const char *const options[] = {"--heartbeat-timeout",
                                          "60",
                                          "--preemption-delay",
                                          "0.01",
                                          "--preemption-grace",
                                          "0.05",
                                          "--gang-preemption-exempt",
                                          "0.01",
                                          "--slot-lease",
                                          "77",
                                          NULL};
    begin_server(options);
    kit_daemon_open(&daemons[0], &server, 7, 4);
    kit_daemon_open(&daemons[1], &server, 8, 0);
    KIT_UNTIL(agents, 3, daemons[0].state.sequence > 2);
    gy_key job = submit_job();
    KIT_UNTIL(agents, 3, daemons[0].starts + daemons[1].starts == 1);
    kit_manager_open(&managers[0], &server, job, 1, 0);
    managers[0].is_stubborn = true;
    managers[0].requests.gangs[0] = (gy_gang_request){.number = 1, .width = 4};
    managers[0].requests.gang_count = 1;
    KIT_UNTIL(agents, 4, managers[0].held_count == 4);
    managers[0].requests.gang_count = 0;
    assert_int_equal(daemons[0].length_ns, 77000000000);
    job = submit_job();
    KIT_UNTIL(agents, 4, daemons[0].starts + daemons[1].starts == 2);
    kit_manager_open(&managers[1], &server, job, 1, 1);
    KIT_UNTIL(agents, 5, managers[0].held_count == 0 && managers[1].held_count == 1);
    for (int i = 0; i < 5; i++) {
        kit_agent_close(agents[i]);
    }
    kit_server_remove(&server);
}

int main(void)
{
    gy_log_set_level(GY_LOG_ERROR);
    return GY_TESTS_RUN(kit_make_folder, kit_remove_folder);
}
