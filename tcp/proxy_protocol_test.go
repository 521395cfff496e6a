package tcp_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tcp"
)

// A handler sees the client, OnOpen after the header, and connections without one are refused.
func TestProxyProtocol(t *testing.T) {
	for _, engine := range []tcp.Engine{tcp.EngineAuto, tcp.EnginePerConn} {
		t.Run(engine.String(), func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &tcp.Server{
				Engine: engine, ProxyProtocol: sluice.ProxyProtocolRequire,
				ProxyTrusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
				Handler:      echo,
				OnOpen: func(c *tcp.Conn) error {
					info, ok := c.ProxyInfo()
					_, err := fmt.Fprintf(c, "%v %v %v %d", c.RemoteAddr(), c.LocalAddr(), ok, info.Version)
					return err
				},
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			for header, want := range map[string]string{
				"PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n": "192.0.2.1:1234 198.51.100.2:443 true 1",
				"hello": "",
			} {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				_, _ = io.WriteString(c, header)
				got := make([]byte, len(want)+1)
				n, _ := io.ReadFull(c, got[:max(len(want), 1)])
				if string(got[:n]) != want {
					t.Errorf("%q: got %q, want %q", header, got[:n], want)
				}
				_ = c.Close()
			}
			if stats := s.Stats(); stats.Refused != 1 || stats.Accepted != 1 {
				t.Errorf("%d are refused, %d accepted", stats.Refused, stats.Accepted)
			}
			_ = ln.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
			s.ProxyTrusted = nil
			if err := s.Serve(ln); err == nil || !strings.Contains(err.Error(), "ProxyTrusted") {
				t.Errorf("Serve without networks: %v", err)
			}
		})
	}
}
