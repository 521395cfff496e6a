package client_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestClientHostKeys(t *testing.T) {
	var last *sluice.HostClient
	c := sluice.Client{Transport: roundTripFunc(func(hc *sluice.HostClient, _ *sluice.Request, _ *sluice.Response) (bool, error) {
		last = hc
		return false, nil
	})}
	host := func(url string) *sluice.HostClient {
		if _, _, err := c.Get(nil, url); err != nil {
			t.Fatal(url, err)
		}
		return last
	}
	for _, same := range [][2]string{
		{"http://example.com/a", "http://EXAMPLE.com/b"},
		{"http://u:p@example.com/", "http://example.com/"},
		{"http://[::1]:81/", "HTTP://[::1]:81/"},
	} {
		if host(same[0]) != host(same[1]) {
			t.Errorf("%q and %q are different hosts", same[0], same[1])
		}
	}
	for _, different := range [][2]string{
		{"http://example.com/", "https://example.com/"},
		{"http://example.com/", "http://example.com:81/"},
		{"http://example.com/", "http://www.example.com/"},
	} {
		if host(different[0]) == host(different[1]) {
			t.Errorf("%q and %q are one host", different[0], different[1])
		}
	}
	for url, addr := range map[string]string{
		"http://h/": "h:80", "https://h/": "h:443", "http://[::1]/": "[::1]:80", "https://[::1]:8/": "[::1]:8",
	} {
		if got := host(url).Addr; got != addr {
			t.Errorf("%q: %q, want %q", url, got, addr)
		}
	}
}

func TestClientRefusesURLs(t *testing.T) {
	hosts := 0
	c := &sluice.Client{ConfigureClient: func(*sluice.HostClient) error { hosts++; return errors.New("configured") }}
	for url, want := range map[string]error{
		"ftp://h/": textError("sluice: the scheme of the request is neither http nor https"), "/path": textError("sluice: the request has no host"), "": textError("sluice: the request has no host"),
		"http://a b/": sluice.InvalidHostError("a b"), "http:///x": textError("sluice: the request has no host"),
		"http://h/\r\nX: y": sluice.ErrorInvalidURI, "http://h/?a\nb": sluice.ErrorInvalidURI, " http://h/": sluice.ErrorInvalidURI,
		"http://:80/": textError("sluice: the request has no host"), "https://u@:443": textError("sluice: the request has no host"),
	} {
		for range 2 {
			if _, _, err := c.Get(nil, url); !isError(err, want) {
				t.Errorf("%q: %v, want %v", url, err, want)
			}
		}
	}
	if hosts != 0 {
		t.Errorf("%d hosts", hosts)
	}
}

func TestConfigureClient(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	mine := errors.New("mine")
	var calls int
	fail := true
	c := &sluice.Client{ConfigureClient: func(hc *sluice.HostClient) error {
		calls++
		if hc.MaxConns != 3 || hc.Addr != "named:80" {
			t.Errorf("MaxConns %d, Addr %q", hc.MaxConns, hc.Addr)
		}
		if fail {
			return mine
		}
		hc.Addr = p.Addr()
		return nil
	}, MaxConnsPerHost: 3}
	if _, _, err := c.Get(nil, "http://named/"); err != mine || c.ConnsCount() != 0 {
		t.Errorf("%v, %d connections", err, c.ConnsCount())
	}
	fail = false
	for range 2 {
		if _, _, err := c.Get(nil, "http://named/"); err != nil {
			t.Error(err)
		}
	}
	if calls != 2 {
		t.Errorf("called %d times", calls)
	}
}

func TestClientCountsOverHosts(t *testing.T) {
	hosts := 0
	c := sluice.Client{ConfigureClient: func(*sluice.HostClient) error { hosts++; return nil }}
	one, two := harness.NewClientPeer(t, answering(harness.OKAnswer)), harness.NewClientPeer(t, answering(harness.OKAnswer))
	var all sync.WaitGroup
	for range 20 {
		for _, p := range []*harness.ClientPeer{one, two} {
			all.Go(func() {
				if _, _, err := c.Get(nil, p.URL("/")); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if c.ConnsCount() != c.IdleConnsCount() || c.ConnsCount() < 2 || hosts != 2 {
		t.Errorf("%d open, %d idle, %d hosts", c.ConnsCount(), c.IdleConnsCount(), hosts)
	}
	c.CloseIdleConnections()
	if c.ConnsCount() != 0 {
		t.Errorf("%d open", c.ConnsCount())
	}
}
