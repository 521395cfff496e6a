//go:debug rsa1024min=0

package programs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestBoringSSL: BoringSSL's runner, a TLS client that breaks rules, gets what
// testdata/tls/boringssl/deviations.txt says. It runs all its tests of servers over TCP that may
// speak TLS 1.3, and those of the record layer in which it is the server with roles exchanged.
func TestBoringSSL(t *testing.T) {
	t.Parallel()
	source := os.Getenv("SLUICE_BORINGSSL")
	if source == "" {
		t.Skip("skipped: SLUICE_BORINGSSL is not set, see doc.go")
	}
	runner, folder := buildRunner(t, source), makeRunnerFiles(t)
	want := readDeviations(t)
	for _, mode := range []string{modeCompact, modeDetached, modeCold, modeGo} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			got := runRunner(t, runner, folder, mode)
			column := 0
			if mode == modeGo {
				column = 1
			}
			good, ran, others := 0, 0, 0
			for name, outcome := range got {
				if outcome == unimplemented {
					others++
					continue
				}
				ran++
				if outcome == passed {
					good++
				}
				expected := passed
				if row, ok := want[name]; ok {
					expected = row[column]
				}
				if outcome != expected {
					t.Errorf("%s: %s, want %s", name, outcome, expected)
				}
			}
			t.Logf("%d of %d pass, %d are unimplemented", good, ran, others)
			if mode == modeCold { // some tests only
				return
			}
			for name := range want {
				if name != allTests && got[name] == "" {
					t.Errorf("%s did not run", name)
				}
			}
			if all := fmt.Sprintf("%d of %d pass", good, ran); all != want[allTests][column] {
				t.Errorf("%s, want %s", all, want[allTests][column])
			}
		})
	}
}

// Outcomes of a test, and the row of boringssl.txt that counts them.
const (
	passed        = "passed"
	unimplemented = "unimplemented"
	allTests      = "all"
)

// readDeviations returns what is expected of the tests that do not pass, by name: with compact
// TLS, and without.
func readDeviations(t *testing.T) map[string][2]string {
	t.Helper()
	table, err := os.ReadFile("testdata/tls/boringssl/deviations.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][2]string)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Split(line, "|"); len(fields) == 4 {
			rows[strings.TrimSpace(fields[0])] = [2]string{strings.TrimSpace(fields[1]), strings.TrimSpace(fields[2])}
		}
	}
	return rows
}

// buildRunner builds the runner of BoringSSL's source with testdata/tls/boringssl/roles.go, and
// returns its name.
func buildRunner(t *testing.T, source string) string {
	t.Helper()
	folder := t.TempDir()
	in := filepath.Join(source, "ssl", "test", "runner")
	text, err := os.ReadFile(filepath.Join(in, "runner.go"))
	if err != nil {
		t.Fatalf("SLUICE_BORINGSSL: %v", err)
	}
	patched := string(text)
	for old, added := range map[string]string{
		"\taddHintMismatchTests()\n":                 "\tkeepServers()\n", // the last tests are there
		"\tconnState := tlsConn.ConnectionState()\n": "\tstartLate(test, config)\n",
	} {
		if strings.Count(patched, old) != 1 {
			t.Fatalf("this runner has no line %q as that of boring-sys 4.15.0", old)
		}
		patched = strings.Replace(patched, old, old+added, 1)
	}
	roles, err := filepath.Abs("testdata/tls/boringssl/roles.go")
	overlay := filepath.Join(folder, "overlay.json")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(in, "runner.go"): filepath.Join(folder, "runner.go"),
		filepath.Join(in, "roles.go"):  roles,
	}})
	err = errors.Join(err, os.WriteFile(filepath.Join(folder, "runner.go"), []byte(patched), 0o600), os.WriteFile(overlay, replace, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	runner := filepath.Join(folder, "runner")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", runner, ".")
	build.Dir, build.Env = in, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", build, err, out)
	}
	return runner
}

// runnerErrors are the alerts that tell of BoringSSL's errors, as the shim prints them. Other
// errors are not looked at, only that there is one.
var runnerErrors = map[string]string{
	":APPLICATION_DATA_INSTEAD_OF_HANDSHAKE:": "sent: unexpected message",
	":BAD_ALERT:":                           "sent: decode error",
	":BAD_ECPOINT:":                         "sent: illegal parameter",
	":DATA_LENGTH_TOO_LONG:":                "sent: record overflow",
	":DECODE_ERROR:":                        "sent: decode error",
	":DECRYPTION_FAILED_OR_BAD_RECORD_MAC:": "sent: bad record mac",
	":ENCRYPTED_LENGTH_TOO_LONG:":           "sent: record overflow",
	":INVALID_OUTER_RECORD_TYPE:":           "sent: unexpected message",
	":TLSV1_ALERT_RECORD_OVERFLOW:":         "received: record overflow",
	":TOO_MANY_EMPTY_FRAGMENTS:":            "sent: unexpected message",
	":TOO_MANY_KEY_UPDATES:":                "sent: unexpected message",
	":TOO_MANY_WARNING_ALERTS:":             "sent: unexpected message",
	":UNEXPECTED_MESSAGE:":                  "sent: unexpected message",
	":UNEXPECTED_RECORD:":                   "sent: unexpected message",
	":UNKNOWN_ALERT_TYPE:":                  "sent: illegal parameter",
}

// makeRunnerFiles returns a folder with what the runner reads: certificates, keys, and
// runnerErrors.
func makeRunnerFiles(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	put := func(name string, text []byte, err error) {
		if err := errors.Join(err, os.WriteFile(filepath.Join(folder, name), text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, generate := range map[string]func() (crypto.Signer, error){
		"":            func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		"rsa_1024_":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 1024) },
		"rsa_chain_":  func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		"ecdsa_p224_": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P224(), rand.Reader) },
		"ecdsa_p256_": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"ecdsa_p384_": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		"ecdsa_p521_": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
		"ed25519_": func() (crypto.Signer, error) {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			return key, err
		},
	} {
		key, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		put(prefix+"cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), err)
		packed, err := x509.MarshalPKCS8PrivateKey(key)
		put(prefix+"key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: packed}), err)
		if prefix == "ecdsa_p256_" {
			packed, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
			put("channel_id_key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: packed}), err)
		}
	}
	config, err := json.Marshal(map[string]any{"ErrorMap": runnerErrors})
	put("config.json", config, err)
	return folder
}

// runRunner runs the runner with this process's program as the shim, and returns the outcome of
// each test.
func runRunner(t *testing.T, runner, folder, mode string) map[string]string {
	t.Helper()
	shim, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-shim-path", shim, "-resource-dir", folder, "-shim-config", filepath.Join(folder, "config.json"),
		"-pipe", "-allow-unimplemented", "-loose-errors", "-num-workers", "4",
	}
	if mode == modeCold { // they wait, most of the time
		args = append(args, "-test", "*-Exchanged;*-Added", "-num-workers", "40")
	}
	cmd := exec.CommandContext(t.Context(), runner, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), shimVariable+"="+mode)
	out, err := cmd.CombinedOutput() // fails if a test fails
	outcomes, last := make(map[string]string), ""
	for line := range strings.Lines(string(out)) {
		if m := runnerResult.FindStringSubmatch(line); m != nil {
			outcomes[m[2]], last = strings.ToLower(m[1]), m[2]
		} else if outcomes[last] != passed && outcomes[last] != unimplemented {
			outcomes[last] += line
		}
	}
	delete(outcomes, "")
	if len(outcomes) == 0 {
		t.Fatalf("the runner: %v: %.3000s", err, out)
	}
	for name, outcome := range outcomes {
		outcomes[name] = failureOf(outcome)
	}
	return outcomes
}

var (
	runnerResult = regexp.MustCompile(`^(PASSED|FAILED|UNIMPLEMENTED) \((.*)\)\n$`)
	localError   = regexp.MustCompile(`local error '(.*?)'`)
	sentAlerts   = regexp.MustCompile(`(?m)^sent: (.*)$`)
)

// failureOf returns how a test has failed: with an alert of the server, or by what the runner
// says. Other outcomes it returns as they are.
func failureOf(outcome string) string {
	if outcome == passed || outcome == unimplemented {
		return outcome
	}
	if strings.Contains(outcome, "unexpected success") {
		return "success"
	}
	sent, local := sentAlerts.FindStringSubmatch(outcome), localError.FindStringSubmatch(outcome)
	switch {
	case sent != nil && sent[1] != noAlert && sent[1] != "close notify":
		return sent[1]
	case local != nil && strings.HasSuffix(local[1], "i/o timeout"):
		return "silence"
	case local != nil && !endOfConnection.MatchString(local[1]):
		return local[1]
	}
	return noAlert
}

// endOfConnection is how the runner sees the end of the connection without an alert.
var endOfConnection = regexp.MustCompile(`^(EOF|none|.*: (broken pipe|connection reset by peer))$`)
