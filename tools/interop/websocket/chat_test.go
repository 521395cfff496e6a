package websocket_test

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestChat: two pages of examples/chat talk in Chromium, over ws, over wss, and over wss
// in a connection of HTTP/2.
func TestChat(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	program := filepath.Join(t.TempDir(), "chat")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/sluicehttp/sluice/examples/chat").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	certificate, key, spki := pemFiles(t)
	for _, test := range []struct {
		name      string
		server    []string
		browser   []string
		handshake int // the status of an extended CONNECT is 200
	}{
		{"ws", nil, nil, 101},
		{"wss", []string{"-cert", certificate, "-key", key}, []string{"--disable-http2"}, 101},
		{"wss h2", []string{"-cert", certificate, "-key", key}, nil, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			page := startChat(t, program, test.server)
			profile, stop := browse(t, chromium, spki, "about:blank", append(test.browser, "--remote-debugging-port=0")...)
			defer stop()
			handshakes := chat(newDriver(t, profile), page)
			if want := []int{test.handshake, test.handshake, test.handshake}; !slices.Equal(handshakes, want) {
				t.Errorf("the handshakes have the statuses %d, want %d", handshakes, want)
			}
		})
	}
}

// pemFiles writes a certificate for localhost to files.
func pemFiles(t *testing.T) (certificate, key, spki string) {
	pair, spki := selfSigned(t)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	return write("cert.pem", "CERTIFICATE", pair.Certificate[0]), write("key.pem", "PRIVATE KEY", der), spki
}

// startChat starts the program until the test ends, and returns the page's URL.
func startChat(t *testing.T, program string, args []string) string {
	cmd := exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		ended := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer ended.Stop()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if _, address, isIt := strings.Cut(lines.Text(), "listening on "); isIt {
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			u.Host = "localhost:" + u.Port()
			return u.String()
		}
		t.Log(lines.Text())
	}
	t.Fatal("the program does not listen")
	return ""
}

const (
	present = "document.getElementById('present').textContent"
	events  = "[...document.querySelectorAll('#events li')].map(e => e.textContent).join('; ')"
)

// chat enters a room with two pages. One reloads, and leaves.
func chat(d driver, page string) (handshakes []int) {
	ann, bob := d.open(page), d.open(page)
	enter := func(t *tab, name string) { t.fill("enter", map[string]string{"room": "tea", "name": name}) }
	say := func(t *tab, text string) { t.fill("say", map[string]string{"text": text}) }
	enter(ann, "ann")
	ann.await(present, "Here: ann")
	enter(bob, "bob")
	ann.await(present, "Here: ann, bob")
	bob.await(events, "bob has come")
	say(ann, "milk?")
	bob.await(events, "bob has come; ann: milk?")
	say(bob, "<b>no")
	ann.await(events, "ann has come; bob has come; ann: milk?; bob: <b>no")
	bob.call("Page.reload", nil, nil)
	ann.await(present, "Here: ann")
	enter(bob, "bob")
	bob.await(events, "ann: milk?; bob: <b>no; bob has come")
	ann.await(present, "Here: ann, bob")
	handshakes = append(ann.handshakes, bob.handshakes...)
	bob.call("Page.close", nil, nil)
	ann.await(present, "Here: ann")
	ann.await(events, "ann has come; bob has come; ann: milk?; bob: <b>no; bob has left; bob has come; bob has left")
	return handshakes
}
