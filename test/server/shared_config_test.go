package server_test

import (
	"crypto/tls"
	"reflect"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestConfigsStayAsTheyAre: servers and clients that share a tls.Config do not write into
// it, and each offers what it speaks.
func TestConfigsStayAsTheyAre(t *testing.T) {
	certPEM, keyPEM, client := harness.CertificateFor(t, "localhost")
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	for name, protocols := range map[string][]string{"none": nil, "own": append(make([]string, 0, 8), "own"), "h2": {"h2", "http/1.1"}} {
		t.Run(name, func(t *testing.T) {
			certificates := append(make([]tls.Certificate, 0, 8), pair) // room, into which an append would write
			config := &tls.Config{Certificates: certificates, RootCAs: client.RootCAs, ServerName: "localhost", NextProtos: protocols}
			before := config.Clone()
			// As programs do, and at the same time: the race detector looks at it.
			rigs := make([]*harness.Rig, 2)
			for i := range rigs {
				n := harness.OverTCP()
				n.Secure = config
				s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Write(ctx.Request.Header.Protocol()) }}
				s.NextProto("other", nil)
				rigs[i] = harness.Serve(t, n, s)
			}
			modes := []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Auto}
			answers := make(chan error, len(rigs)*len(modes))
			for _, r := range rigs {
				for _, mode := range modes {
					go func() {
						c := &sluice.Client{TLSConfig: config, HTTP2: mode}
						_, body, err := c.Get(nil, "https://"+r.Ln.Addr().String()+"/")
						if want := "HTTP/1.1"; err == nil && mode == sluice.HTTP2Off && string(body) != want {
							t.Errorf("%v: %s", mode, body)
						}
						c.CloseIdleConnections()
						answers <- err
					}()
				}
			}
			for range cap(answers) {
				if err := <-answers; err != nil {
					t.Error(err)
				}
			}
			if err := rigs[0].Server.AppendCertEmbed(certPEM, keyPEM); err != nil || len(rigs[0].Server.TLSConfig.Certificates) != 2 {
				t.Errorf("AppendCertEmbed: %v, %d certificates", err, len(rigs[0].Server.TLSConfig.Certificates))
			}
			if !slices.Equal(config.NextProtos, before.NextProtos) || len(config.Certificates) != 1 || config.GetConfigForClient != nil {
				t.Errorf("NextProtos %q, %d certificates", config.NextProtos, len(config.Certificates))
			}
			if room := certificates[:2]; !reflect.DeepEqual(room[1], tls.Certificate{}) {
				t.Error("a certificate was written behind the program's")
			}
			if len(protocols) == 1 && protocols[:2][1] != "" {
				t.Error("a protocol was written behind the program's")
			}
		})
	}
}
