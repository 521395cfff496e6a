package compact

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// Which connections become compact, and what is said of them.
func TestHandshake(t *testing.T) {
	cache := tls.NewLRUClientSessionCache(1)
	encryptedHello := encryptedHelloKey(t)
	for _, c := range []struct {
		name           string
		server, client func(*tls.Config)
		isCompact      bool
		check          func(tls.ConnectionState) bool
	}{
		{"plain", nil, nil, true, func(s tls.ConnectionState) bool { return s.ServerName == "localhost" && !s.DidResume }},
		{"without tickets", func(c *tls.Config) { c.SessionTicketsDisabled = true }, nil, true, nil},
		{"ALPN", func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }, func(c *tls.Config) { c.NextProtos = []string{"h2"} }, true,
			func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "h2" }},
		{"a first one", nil, func(c *tls.Config) { c.ClientSessionCache = cache }, true, func(s tls.ConnectionState) bool { return !s.DidResume }},
		{"a resumed one", nil, func(c *tls.Config) { c.ClientSessionCache = cache }, true, func(s tls.ConnectionState) bool { return s.DidResume }},
		{"another key share is asked for", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP521} }, nil, true,
			func(s tls.ConnectionState) bool { return s.CurveID == tls.CurveP521 && s.HelloRetryRequest }},
		{"a client's certificate", func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
			func(c *tls.Config) { c.Certificates = serverConfig(t).Certificates }, true,
			func(s tls.ConnectionState) bool { return len(s.PeerCertificates) == 1 }},
		{"no certificate of the client", func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }, nil, true,
			func(s tls.ConnectionState) bool { return len(s.PeerCertificates) == 0 }},
		{"TLS 1.2", nil, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, false, nil},
		{"another configuration", func(c *tls.Config) {
			other := serverConfig(t)
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return other, nil }
		}, nil, true, nil},
		{"no other configuration", func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
		}, nil, true, nil},
		{"another configuration without TLS 1.3", func(c *tls.Config) {
			other := serverConfig(t)
			other.MaxVersion = tls.VersionTLS12
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return other, nil }
		}, nil, false, nil},
		{"a certificate for the name", func(c *tls.Config) {
			certificate := c.Certificates[0]
			c.Certificates = nil
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
		}, nil, true, nil},
		{"an encrypted ClientHello", func(c *tls.Config) { c.EncryptedClientHelloKeys = []tls.EncryptedClientHelloKey{encryptedHello} },
			func(c *tls.Config) {
				c.EncryptedClientHelloConfigList = append(binary.BigEndian.AppendUint16(nil, uint16(len(encryptedHello.Config))), encryptedHello.Config...)
			}, true, func(s tls.ConnectionState) bool { return s.ECHAccepted && s.ServerName == "localhost" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := serverConfig(t), clientConfig()
			server.SetSessionTicketKeys([][32]byte{{1}})
			if c.server != nil {
				c.server(server)
			}
			if c.client != nil {
				c.client(client)
			}
			l := NewListener(server)
			near, far := shake(t, l, client)
			if _, ok := near.(*Conn); ok != c.isCompact {
				t.Fatalf("it is a %T", near)
			}
			echo(t, near, far)
			state := near.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState()
			if !state.HandshakeComplete || c.check != nil && !c.check(state) {
				t.Errorf("%+v", state)
			}
			if _, err := state.ExportKeyingMaterial("label", nil, 16); c.isCompact && err == nil {
				t.Error("it exports keys")
			}
		})
	}
}

// echo sends both ways, and closes both ways.
func echo(t testing.TB, near net.Conn, far *tls.Conn) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(near, near)
		if half, ok := near.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		done <- err
	}()
	go func() {
		_, err := far.Write(data)
		if err == nil {
			err = far.CloseWrite()
		}
		done <- err
	}()
	if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Data that comes in one piece with the end of the handshake is the Conn's.
func TestDataBehindHandshake(t *testing.T) {
	l := NewListener(serverConfig(t))
	other, below := nettest.TCPPair(t)
	corked := &nettest.CorkedConn{Conn: other}
	far := tls.Client(corked, clientConfig())
	near := shakeOver(t, l, below, func() {
		if err := far.Handshake(); err != nil {
			t.Error(err)
		}
		for range 3 {
			if _, err := far.Write([]byte("at once ")); err != nil {
				t.Error(err)
			}
		}
		corked.Flush()
	})
	if _, ok := near.(*Conn); !ok {
		t.Fatalf("it is a %T", near)
	}
	got := make([]byte, 24)
	if _, err := io.ReadFull(near, got); err != nil || string(got) != "at once at once at once " {
		t.Errorf("%q, %v", got, err)
	}
}

// crypto/tls gets parts of one record at a time, however they come, and what is received
// beyond them stays in order.
func TestOneRecordAtATime(t *testing.T) {
	var stream []byte
	var ends []int
	for _, size := range []int{300, 0, 1, 53, 0, 2} {
		stream = append(stream, tls13.TypeHandshake, 3, 3, byte(size>>8), byte(size))
		stream = append(stream, bytes.Repeat([]byte{byte(size)}, size)...)
		ends = append(ends, len(stream))
	}
	for _, piece := range []int{1, 4, 5, 6, 59, len(stream)} {
		for _, room := range []int{1, 5, 6, 517} {
			for taken := range len(ends) + 1 { // records that the handshake has
				var h Handshake
				rest, got := stream, []byte(nil)
				for i := 0; i < taken; {
					p := make([]byte, room)
					n, err := h.Read(p, func(p []byte) (int, error) {
						n := copy(p, rest[:min(piece, len(rest))])
						rest = rest[n:]
						return n, nil
					})
					got = append(got, p[:n]...)
					if n == 0 || err != nil || len(got) > ends[i] {
						t.Fatalf("pieces of %d, room of %d: %d bytes, %v; has %d, the record ends at %d", piece, room, n, err, len(got), ends[i])
					}
					if len(got) == ends[i] {
						i++
					}
				}
				if got = append(append(got, h.ahead...), rest...); !bytes.Equal(got, stream) {
					t.Fatalf("pieces of %d, room of %d, %d records: %x, want %x", piece, room, taken, got, stream)
				}
			}
		}
	}
}

// A handshake reads the socket as often as crypto/tls does.
func TestReadsOfHandshake(t *testing.T) {
	reads := func(isCompact bool) int {
		other, below := nettest.TCPPair(t)
		corked := &nettest.CorkedConn{Conn: other}
		far := tls.Client(corked, clientConfig())
		w := &watched{Conn: below}
		config := serverConfig(t)
		if isCompact {
			l := NewListener(config)
			w.handshake, config = l.Begin(), l.Config()
		}
		server := tls.Server(w, config)
		var both sync.WaitGroup
		both.Go(func() {
			if err := far.Handshake(); err != nil {
				t.Error(err)
			}
			corked.Flush()
		})
		if err := server.Handshake(); err != nil {
			t.Error(err)
		}
		both.Wait()
		return w.reads
	}
	if without, with := reads(false), reads(true); with > without {
		t.Errorf("%d, without it %d", with, without)
	}
}

// Handshakes with one random at one time have their own secrets, whichever configuration
// they have: one of them may be an attacker, who has read the ClientHello of another.
func TestSharedRandom(t *testing.T) {
	other := serverConfig(t)
	config := serverConfig(t)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName == "other" {
			return other, nil
		}
		return nil, nil
	}
	l := NewListener(config)
	var near []net.Conn
	var far []*tls.Conn
	var randoms [3][]byte
	for i, name := range []string{"localhost", "other", "localhost"} {
		client := clientConfig()
		var log bytes.Buffer
		client.Rand, client.ServerName, client.KeyLogWriter = zeros{}, name, &log
		n, f := shake(t, l, client)
		near, far = append(near, n), append(far, f)
		randoms[i] = bytes.Fields(log.Bytes())[1]
	}
	if !bytes.Equal(randoms[0], randoms[1]) || !bytes.Equal(randoms[0], randoms[2]) {
		t.Fatalf("the randoms are %s", randoms)
	}
	for i := range near {
		if _, ok := near[i].(*Conn); !ok {
			t.Errorf("connection %d is a %T", i, near[i])
		}
		echo(t, near[i], far[i])
	}
}

// zeros is a source of random bytes that are not random.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A line of the log of keys is overwritten, unless the program wants it, and may keep it.
func TestLineIsOverwritten(t *testing.T) {
	const text = "SERVER_TRAFFIC_SECRET_0 0102 0304\n"
	for _, kept := range []*keepingWriter{nil, {}} {
		log, want := new(keyLog), make([]byte, len(text))
		if kept != nil {
			log.program, want = kept, []byte(text)
		}
		line := []byte(text)
		if n, err := log.Write(line); n != len(line) || err != nil || !bytes.Equal(line, want) || log.told.out.size != 2 {
			t.Errorf("%d, %v; %q is left, want %q", n, err, line, want)
		}
		if kept != nil && string(kept.last) != text {
			t.Errorf("the program has %q", kept.last)
		}
	}
}

// A keepingWriter keeps what it gets.
type keepingWriter struct{ last []byte }

func (k *keepingWriter) Write(p []byte) (int, error) {
	k.last = p
	return len(p), nil
}

// The program's own logs get all lines: those of the configuration that is used.
func TestLogOfTheProgram(t *testing.T) {
	for _, isOther := range []bool{false, true} {
		var log, far, none bytes.Buffer
		server, client := serverConfig(t), clientConfig()
		server.KeyLogWriter, client.KeyLogWriter = &log, &far
		given := server
		if isOther {
			given = serverConfig(t)
			given.KeyLogWriter = &none
			given.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return server, nil }
		}
		near, _ := shake(t, NewListener(given), client)
		if _, ok := near.(*Conn); !ok {
			t.Fatalf("it is a %T", near)
		}
		if log.String() != far.String() || !strings.Contains(log.String(), "SERVER_TRAFFIC_SECRET_0") || none.Len() > 0 {
			t.Errorf("the server has logged\n%s the client\n%s", &log, &far)
		}
		if server.KeyLogWriter != &log {
			t.Error("the program's configuration has changed")
		}
	}
}

// Tickets resume sessions exactly when they do with crypto/tls alone, for every way to choose
// the configuration and its keys.
//
// long: a table
func TestTickets(t *testing.T) {
	choosing := func(c, other *tls.Config, clones bool) *tls.Config {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if clones {
				return other.Clone(), nil
			}
			return other, nil
		}
		return c
	}
	key := func(b byte) [][32]byte { return [][32]byte{{b}} }
	for _, c := range []struct {
		name string
		make func(c, other *tls.Config) *tls.Config
		then func(c, other *tls.Config) // between two connections
	}{
		{"keys of crypto/tls", func(c, _ *tls.Config) *tls.Config { return c }, nil},
		{"none", func(c, _ *tls.Config) *tls.Config { c.SessionTicketsDisabled = true; return c }, nil},
		{"another configuration", func(c, other *tls.Config) *tls.Config { return choosing(c, other, false) }, nil},
		{"a new configuration each time", func(c, other *tls.Config) *tls.Config { return choosing(c, other, true) }, nil},
		{"another configuration with keys", func(c, other *tls.Config) *tls.Config {
			other.SetSessionTicketKeys(key(1))
			return choosing(c, other, false)
		}, nil},
		{"its keys are rotated", func(c, other *tls.Config) *tls.Config {
			other.SetSessionTicketKeys(key(1))
			return choosing(c, other, false)
		}, func(_, other *tls.Config) { other.SetSessionTicketKeys(append(key(2), key(1)...)) }},
		{"its keys are replaced", func(c, other *tls.Config) *tls.Config {
			other.SetSessionTicketKeys(key(1))
			return choosing(c, other, false)
		}, func(_, other *tls.Config) { other.SetSessionTicketKeys(key(2)) }},
		{"it has no tickets", func(c, other *tls.Config) *tls.Config {
			other.SessionTicketsDisabled = true
			return choosing(c, other, false)
		}, nil},
		{"the program's tickets", func(c, other *tls.Config) *tls.Config {
			keys := serverConfig(t)
			other.WrapSession, other.UnwrapSession = keys.EncryptTicket, keys.DecryptTicket
			return choosing(c, other, true)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			resumes := func(isCompact bool) (all []bool) {
				config, other := serverConfig(t), serverConfig(t)
				config = c.make(config, other)
				l := NewListener(config)
				client := clientConfig()
				client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
				for range 3 {
					if !isCompact {
						l = &Listener{config: config}
					}
					near, far := shake(t, l, client)
					if _, ok := near.(*Conn); ok != isCompact {
						t.Fatalf("it is a %T", near)
					}
					echo(t, near, far)
					all = append(all, far.ConnectionState().DidResume)
					if c.then != nil {
						c.then(config, other)
					}
				}
				return all
			}
			want, got := resumes(false), resumes(true)
			if !slices.Equal(got, want) {
				t.Errorf("resumed: %v, by crypto/tls %v", got, want)
			}
			t.Log(got)
		})
	}
}

// Secrets that are not those of a connection do not become its own: it ends.
func TestForeignSecrets(t *testing.T) {
	other := serverConfig(t)
	for _, choose := range []func(*tls.ClientHelloInfo) (*tls.Config, error){
		nil,
		func(*tls.ClientHelloInfo) (*tls.Config, error) { return other, nil },
	} {
		for told := range 3 {
			config := serverConfig(t)
			config.GetConfigForClient = choose
			w, server := handshakeOf(t, NewListener(config), clientConfig())
			log := &w.handshake.log
			for i, label := range []string{"SERVER_TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0"} {
				if i >= told {
					break
				}
				if _, err := fmt.Fprintf(log, "%s %064x %s\n", label, 0, strings.Repeat("ab", 32)); err != nil {
					t.Fatal(err)
				}
			}
			c, _, err := w.handshake.End(server, w)
			if (c != nil) != (told == 0) || (err == errSecrets) != (told > 0) {
				t.Errorf("with %d secrets of another it goes on: %v, %v", told, c != nil, err)
			}
			if w.handshake.log != (keyLog{}) || len(w.handshake.proof) > 0 {
				t.Error("the handshake remembers secrets")
			}
		}
	}
}

// handshakeOf makes a handshake that is not ended.
func handshakeOf(t *testing.T, l *Listener, config *tls.Config) (*watched, *tls.Conn) {
	t.Helper()
	far, below := nettest.TCPPair(t)
	client := tls.Client(far, config)
	w := &watched{Conn: below, handshake: l.Begin()}
	server := tls.Server(w, l.Config())
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return w, server
}

// Lines of a log that tell nothing are passed on.
func TestLinesOfTheLog(t *testing.T) {
	const label = "CLIENT_TRAFFIC_SECRET_0 "
	random, secret := strings.Repeat("01", 32), strings.Repeat("aa", 32)
	for line, size := range map[string]int{
		label + random + " " + secret + "\n": 32, label + random + " " + secret + secret[:32] + "\n": 48,
		"": 0, label: 0, label + "01 \n": 0, label + random + " xx\n": 0, label + random + " " + secret + secret: 0, "OTHER " + random + " " + secret: 0,
	} {
		var log bytes.Buffer
		k := &keyLog{program: &log}
		if n, err := k.Write([]byte(line)); n != len(line) || err != nil || log.String() != line {
			t.Errorf("%q: %d, %v, passed on %q", line, n, err, &log)
		}
		if k.told.in.size != size || k.told.out.size != 0 {
			t.Errorf("%q: %+v", line, k.told)
		}
	}
}

// A handshake that fails leaves nothing behind.
func TestHandshakeFails(t *testing.T) {
	l := NewListener(serverConfig(t))
	for _, sends := range []string{"", "GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 100), "\x16\x03\x01\x00\x26\x01\x00\x00\x22\x03\x03" + strings.Repeat("r", 40), "\x16\x03\x01\x00\x01\x01" + strings.Repeat("x", 100)} {
		other, below := nettest.TCPPair(t)
		w := &watched{Conn: below, handshake: l.Begin()}
		server := tls.Server(w, l.Config())
		if _, err := io.WriteString(other, sends); err != nil {
			t.Fatal(err)
		}
		if err := other.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := server.Handshake(); err == nil {
			t.Errorf("%q is a handshake", sends)
		}
		if c, _, err := w.handshake.End(server, w); c != nil || err != nil {
			t.Errorf("%q became compact, or failed again: %v", sends, err)
		}
		if w.handshake.log != (keyLog{}) || len(w.handshake.proof) > 0 {
			t.Errorf("%q: the handshake remembers secrets", sends)
		}
	}
}

// How many tickets a client gets is known from its ClientHello.
func TestTicketsAreForeseen(t *testing.T) {
	for _, want := range []uint64{0, 1} {
		client := clientConfig()
		if want > 0 {
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		}
		w, server := handshakeOf(t, NewListener(serverConfig(t)), client)
		foreseen := w.handshake.tickets
		c, _, err := w.handshake.End(server, w)
		if err != nil {
			t.Fatal(err)
		}
		var state tls13.State
		c.Pause(&state)
		if got := state.Out.Sequence; foreseen != want || got != want {
			t.Errorf("%d are foreseen, and %d sent, want %d", foreseen, got, want)
		}
	}
}

// A Handshake is reused with its configuration, and keeps nothing else of the last connection.
func TestHandshakeServesAgain(t *testing.T) {
	config := serverConfig(t)
	l := NewListener(config)
	for range 100 { // a pool may drop what it gets
		near, far := shake(t, l, clientConfig())
		echo(t, near, far)
		h := l.Begin()
		if h.config == nil {
			continue
		}
		if h.config.KeyLogWriter != &h.log {
			t.Error("its configuration tells others the secrets")
		}
		h.config, h.proof = nil, append(h.proof[:0:0], h.proof[:cap(h.proof)]...)
		if want := (&Handshake{listener: l, proof: make([]byte, proofRoom)}); !reflect.DeepEqual(h, want) {
			t.Errorf("%+v, want %+v", h, want)
		}
		return
	}
	t.Error("none has served again")
}

// Connections share their facts, also with earlier connections that have ended. A Table keeps few
// facts of ended connections, however many names clients ask for.
func TestFacts(t *testing.T) {
	l := NewListener(serverConfig(t))
	var all []*Conn
	for range 3 {
		near, _ := shake(t, l, clientConfig())
		all = append(all, near.(*Conn))
	}
	other := clientConfig()
	other.ServerName = "other.example"
	near, _ := shake(t, l, other)
	all = append(all, near.(*Conn))
	if all[0].facts != all[1].facts || all[0].facts != all[2].facts || all[0].facts == all[3].facts || len(l.facts.all) != 2 {
		t.Errorf("%d facts", len(l.facts.all))
	}
	for _, c := range all {
		c.End()
	}
	if near, _ := shake(t, l, clientConfig()); near.(*Conn).facts != all[0].facts || all[0].facts.users != 1 {
		t.Errorf("a later connection has other facts, or they have %d users", all[0].facts.users)
	}
	var open []*Facts
	for i := range 3 * keptFacts {
		open = append(open, l.facts.get(&tls.ConnectionState{ServerName: strconv.Itoa(i)}))
	}
	for _, facts := range open {
		if l.facts.all[facts.key] != facts {
			t.Fatal("the facts of an open connection are gone")
		}
		facts.Drop()
	}
	if len(l.facts.all) != keptFacts {
		t.Errorf("%d facts are left", len(l.facts.all))
	}
}
