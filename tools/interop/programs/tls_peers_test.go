package programs

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A tlsPeer is a client with a TLS implementation of its own: a script or program of
// testdata/tls. It gets an address and options, and makes a tour of two connections:
//
//  1. 20 requests of /who, "pause", and when a line has come, 20 more; an upload and a
//     download. If it can, it changes its keys, asks for the same of the server's (RFC 8446
//     section 4.6.3), and repeats both ("update"). It sends close_notify and, if it
//     can, awaits the server's ("closed").
//  2. If it can, it resumes the session: /who. Then /bye, whose end is the server's
//     close_notify; but for node, peers fail without it.
//
// It prints a line "who" for each answer of /who, "ok" and a name for each step, "next"
// between the connections, and "end".
type tlsPeer struct {
	name    string
	command func(t *testing.T) []string
	extra   []string // steps that others do not have
	resumes bool
	log     string // what its log has after new keys
	// offer returns what makes it offer one suite; nil: nothing does.
	offer func(t *testing.T, suite string) (args, env []string)
}

var tlsPeers = []tlsPeer{
	{"python", func(t *testing.T) []string { return []string{find(t, "python3"), "testdata/tls/client.py"} }, []string{"closed"}, true, "", offerByFile},
	{"node", func(t *testing.T) []string { return []string{find(t, "node"), "testdata/tls/client.mjs"} }, nil, true, "", offerByOption},
	{"java", javaTLS, []string{"closed"}, true, "Consuming KeyUpdate post-handshake message", offerByOption},
	{"curl with GnuTLS", curlWithGnuTLS, nil, false, "", nil},
	{"rustls", func(t *testing.T) []string {
		program := os.Getenv("SLUICE_RUSTLS")
		if program == "" {
			t.Skip("skipped: SLUICE_RUSTLS is not set, see the comment of the package")
		}
		return []string{program}
	}, []string{"update", "closed"}, true, "", offerByOption},
}

func offerByOption(_ *testing.T, suite string) (args, env []string) {
	return []string{"suite=" + suite}, nil
}

// offerByFile sets the suite in a file that OpenSSL reads.
func offerByFile(t *testing.T, suite string) (args, env []string) {
	name := filepath.Join(t.TempDir(), "openssl.cnf")
	text := "openssl_conf = main\n[main]\nssl_conf = ssl\n[ssl]\nsystem_default = all\n[all]\nCiphersuites = " + suite + "\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return nil, []string{"OPENSSL_CONF=" + name}
}

// javaTLS has Java change its keys after about one download. From then on Java asks for new
// keys with every record that it reads until the server has answered, which it does
// after the response at hand: with a lower limit that would be more records without data in
// a row than the server, or crypto/tls, allows. With ChaCha20 it never does.
func javaTLS(t *testing.T) []string {
	java, compiler, folder := find(t, "java"), find(t, "javac"), t.TempDir()
	if out, err := exec.Command(compiler, "-d", folder, "testdata/tls/TLSClient.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v: %s", err, out)
	}
	limits := filepath.Join(folder, "limits")
	const text = "jdk.tls.keyLimits=AES/GCM/NoPadding KeyUpdate 10500000\n"
	if err := os.WriteFile(limits, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{java, "-Djava.security.properties=" + limits, "-Djavax.net.debug=ssl:handshake", "-cp", folder, "TLSClient"}
}

// curlWithGnuTLS is the libcurl of Debian's python3-pycurl.
func curlWithGnuTLS(t *testing.T) []string {
	python := find(t, "/usr/bin/python3", os.Getenv("SLUICE_PYCURL"))
	if out, err := exec.Command(python, "-c", "import pycurl; print(pycurl.version)").CombinedOutput(); err != nil || !strings.Contains(string(out), "GnuTLS") {
		t.Skipf("skipped: %s has no pycurl with GnuTLS: %.200s", python, out)
	}
	return []string{python, "testdata/tls/curl.py"}
}

// A tour is what a peer has printed.
type tour struct {
	before, after []visit // on the first connection: before and after the pause
	next          []visit // on the second
	steps         []string
	log           string
}

// travel runs a peer. The pause ends when during returns.
func travel(t *testing.T, addr string, command, options, env []string, during func()) (done tour) {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	args := append(append(slices.Clone(command[1:]), host, port), options...)
	cmd := exec.CommandContext(t.Context(), command[0], args...)
	cmd.Env = append(os.Environ(), env...)
	var failure strings.Builder
	cmd.Stderr = &failure
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	overdue := time.AfterFunc(3*patience, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	visits := &done.before
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "who":
			var v visit
			if err := json.Unmarshal([]byte(rest), &v); err != nil {
				t.Errorf("%s: %v", rest, err)
			}
			*visits = append(*visits, v)
		case "pause":
			during()
			visits = &done.after
			_, _ = stdin.Write([]byte("\n"))
		case "next":
			visits = &done.next
		case "ok":
			done.steps = append(done.steps, rest)
		case "end":
			done.steps = append(done.steps, what)
		default:
			t.Error(lines.Text())
		}
	}
	err = cmd.Wait()
	if done.log = failure.String(); err != nil {
		t.Errorf("%s: %v: %s", command[0], err, done.log[max(0, len(done.log)-2000):])
	}
	return done
}

// expect checks that p's tour was whole. All visits are as want, but for the address and
// process, which are those of the connection.
func (done *tour) expect(t *testing.T, p *tlsPeer, want visit) {
	t.Helper()
	is13 := want.Version == "TLS 1.3"
	steps := []string{"upload", "download", "bye", "end"}
	if is13 {
		steps = append(steps, p.extra...)
	}
	for _, step := range steps {
		if !slices.Contains(done.steps, step) {
			t.Errorf("not done: %s", step)
		}
	}
	if is13 && want.Suite != chaCha20 && !strings.Contains(done.log, p.log) {
		t.Errorf("its log does not have %s", p.log)
	}
	if len(done.before) != 20 || len(done.after) < 20 || len(done.next) != 1 {
		t.Errorf("%d, %d and %d visits", len(done.before), len(done.after), len(done.next))
		return
	}
	want.Remote = done.before[0].Remote
	checkVisits(t, done.before, want)
	checkVisits(t, done.after, want)
	if is13 {
		want.Remote, want.IsResumed = done.next[0].Remote, p.resumes
		checkVisits(t, done.next, want)
	}
}

// checkVisits checks that all are as want. An empty field of want allows any value.
func checkVisits(t *testing.T, visits []visit, want visit) {
	t.Helper()
	for i, v := range visits {
		want.Process = v.Process
		if want.Suite == "" {
			want.Suite = v.Suite
		}
		if want.Protocol == "" {
			want.Protocol = v.Protocol
		}
		if v != want {
			t.Errorf("visit %d: %+v, want %+v", i, v, want)
			return
		}
	}
}

// The suites of a compact connection.
var suites = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", chaCha20}

const chaCha20 = "TLS_CHACHA20_POLY1305_SHA256"

// onTLSPeers runs a test with each peer.
func onTLSPeers(t *testing.T, test func(t *testing.T, p tlsPeer, command []string)) {
	t.Parallel()
	for _, p := range tlsPeers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p, p.command(t))
		})
	}
}

// TestTLSPeers: every peer makes its tour on compact connections. The connection cools down
// in the pause.
func TestTLSPeers(t *testing.T) {
	onTLSPeers(t, func(t *testing.T, p tlsPeer, command []string) {
		addr := serveTLS(t, true)
		rest := func() {}
		want := compactVisit
		t.Run("pause and certificate", func(t *testing.T) {
			cert, key := clientCertificate(t)
			want := want
			want.Certificates = 1
			done := travel(t, addr, command, []string{"cert=" + cert, "key=" + key}, nil, func() { time.Sleep(coolingTime) })
			done.expect(t, &p, want)
		})
		for _, suite := range suites {
			t.Run(suite, func(t *testing.T) {
				if p.offer == nil {
					t.Skip("skipped: the peer offers all suites")
				}
				args, env := p.offer(t, suite)
				want := want
				want.Suite = suite
				done := travel(t, addr, command, args, env, rest)
				done.expect(t, &p, want)
			})
		}
		t.Run("TLS 1.2", func(t *testing.T) {
			done := travel(t, addr, command, []string{"version=1.2"}, nil, rest)
			done.expect(t, &p, visit{Version: "TLS 1.2"})
		})
		t.Run("not compact", func(t *testing.T) {
			done := travel(t, serveTLS(t, false), command, nil, nil, rest)
			done.expect(t, &p, visit{Version: "TLS 1.3"})
		})
	})
}

// TestTLSPeersMove: the connection of every peer goes on in another process.
func TestTLSPeersMove(t *testing.T) {
	onTLSPeers(t, func(t *testing.T, p tlsPeer, command []string) {
		f := startFleet(t)
		done := travel(t, f.addr, command, nil, nil, f.restart)
		done.expect(t, &p, compactVisit)
		if len(done.before) > 0 && len(done.after) > 0 && done.before[0].Process == done.after[0].Process {
			t.Error("the connection has stayed")
		}
	})
}
