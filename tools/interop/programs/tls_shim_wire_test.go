package programs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// relay passes the bytes on between the runner and the server until both have ended, and
// returns those of the server.
func (s *shim) relay(runner, server *net.TCPConn) (sent []byte) {
	defer runner.Close()
	defer server.Close()
	var seen bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.MultiWriter(&seen, runner), server)
		_ = runner.CloseWrite()
	}()
	for p := make([]byte, 64<<10); ; {
		n, err := runner.Read(p)
		if s.mode == modeCold && s.isOpened.Load() {
			time.Sleep(coolingTime)
		}
		_, _ = server.Write(p[:n]) // after the server's end the runner is still heard
		if err != nil {
			break
		}
	}
	_ = server.CloseWrite()
	<-done
	return seen.Bytes()
}

const noAlert = "no alert"

// shimKeys is the KeyLogWriter of a connection.
type shimKeys struct {
	mu      sync.Mutex
	secrets map[string][]byte // by label
}

func (k *shimKeys) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.secrets = make(map[string][]byte)
}

// Write implements io.Writer.
func (k *shimKeys) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if fields := strings.Fields(string(p)); len(fields) == 3 {
		k.secrets[fields[0]], _ = hex.DecodeString(fields[2])
	}
	return len(p), nil
}

// alerts returns the alerts among the records that a server has sent with these keys.
func (k *shimKeys) alerts(sent []byte) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var alerts []string
	add := func(err error) {
		if alert, ok := err.(tls13.PeerAlert); ok {
			alerts = append(alerts, tls13.Alert(alert).String())
		} else if err == tls13.ErrEnd {
			alerts = append(alerts, tls13.CloseNotify.String())
		}
	}
	layers := k.layers()
	for len(sent) >= tls13.HeaderSize {
		size := tls13.HeaderSize + int(binary.BigEndian.Uint16(sent[3:]))
		if size > len(sent) {
			break
		}
		record := sent[:size]
		sent = sent[size:]
		switch record[0] {
		case tls13.TypeAlert:
			add(tls13.PeerAlert(record[size-1]))
		case tls13.TypeApplication:
			isOfHandshake, err := k.openHandshake(record)
			add(err)
			for _, l := range layers {
				if !isOfHandshake {
					_, _, err := l.Next(bytes.Clone(record))
					add(err)
				}
			}
		}
	}
	if len(alerts) == 0 {
		return noAlert
	}
	return strings.Join(alerts, ", ")
}

// states returns the state for a secret and each suite that it may be for.
func (k *shimKeys) states(label string) (states []tls13.State) {
	for suite := tls13.AES128GCM; suite <= tls13.ChaCha20; suite++ {
		if s, err := tls13.NewState(suite, k.secrets[label], k.secrets[label], 0, 0); err == nil {
			states = append(states, s)
		}
	}
	return states
}

// layers returns those that may open what the server sends after the handshake. All but one fail
// with the first record.
func (k *shimKeys) layers() (layers []*tls13.Layer) {
	for _, s := range k.states("SERVER_TRAFFIC_SECRET_0") {
		l := new(tls13.Layer)
		if l.Start(tls13.Client, &s) == nil {
			layers = append(layers, l)
		}
	}
	return layers
}

// openHandshake reports whether a record is protected by the keys of the handshake. The error is
// a tls13.PeerAlert if it is an alert.
func (k *shimKeys) openHandshake(record []byte) (isOfHandshake bool, err error) {
	const most = 16 // records that a server sends in a handshake
	for _, s := range k.states("SERVER_HANDSHAKE_TRAFFIC_SECRET") {
		for s.In.Sequence = 0; s.In.Sequence < most; s.In.Sequence++ {
			var l tls13.Layer
			if err := l.Start(tls13.Client, &s); err != nil {
				return true, err
			}
			if _, _, err := l.Next(bytes.Clone(record)); err != tls13.ErrMAC {
				return true, err
			}
		}
	}
	return false, nil
}
