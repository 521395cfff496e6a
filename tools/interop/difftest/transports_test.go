package difftest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	sluiceexpvar "github.com/sluicehttp/sluice/expvarhandler"
	sluiceproxy "github.com/sluicehttp/sluice/fasthttpproxy"
	sluiceutil "github.com/sluicehttp/sluice/fasthttputil"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/expvarhandler"
	"github.com/valyala/fasthttp/fasthttpproxy"
	"github.com/valyala/fasthttp/fasthttputil"
)

// TestUserInformationAllocations: what a request to a URL with user information
// allocates (4.4).
func TestUserInformationAllocations(t *testing.T) {
	const url = "http://user:password@h/path"
	dial := func(string) (net.Conn, error) { return pingPong{}, nil }
	measure := func(do func() error) string {
		return fmt.Sprint(testing.AllocsPerRun(200, func() {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}))
	}
	compare(t, []string{url}, nil,
		func(string) string {
			c := &fasthttp.HostClient{Addr: "h:80", Dial: dial}
			var req fasthttp.Request
			var resp fasthttp.Response
			return measure(func() error { req.SetRequestURI(url); return c.Do(&req, &resp) })
		},
		func(string) string {
			c := &sluice.HostClient{Addr: "h:80", Dial: dial}
			var req sluice.Request
			var resp sluice.Response
			return measure(func() error { req.SetRequestURI(url); return c.Do(&req, &resp) })
		})
}

// pingPong is a connection that answers each Write.
type pingPong struct{ net.Conn }

func (pingPong) Read(p []byte) (int, error)       { return copy(p, okAnswer), nil }
func (pingPong) Write(p []byte) (int, error)      { return len(p), nil }
func (pingPong) Close() error                     { return nil }
func (pingPong) SetDeadline(time.Time) error      { return nil }
func (pingPong) SetReadDeadline(time.Time) error  { return nil }
func (pingPong) SetWriteDeadline(time.Time) error { return nil }
func (pingPong) LocalAddr() net.Addr              { return nil }
func (pingPong) RemoteAddr() net.Addr             { return nil }

// TestUnusableProxies: where a proxy that cannot be used is an error (4.8).
func TestUnusableProxies(t *testing.T) {
	type proxies struct {
		http, https string
		isCGI       bool
	}
	cases := map[string]proxies{
		"CGI":        {http: "http://127.0.0.1:1", isCGI: true},
		"http: ftp":  {http: "ftp://127.0.0.1:1"},
		"https: ftp": {https: "ftp://127.0.0.1:1"},
	}
	var inputs []string
	for name := range cases {
		for _, except := range []string{"", "192.0.2.1", "*"} {
			inputs = append(inputs, name+"|"+except+"|plain", name+"|"+except+"|tls")
		}
	}
	config := func(input string) (p proxies, except string, isTLS bool) {
		parts := strings.Split(input, "|")
		return cases[parts[0]], parts[1], parts[2] == "tls"
	}
	// Nothing listens there: what comes to connecting is refused.
	describe := func(err error, dial func(addr string) (net.Conn, error)) string {
		if err != nil {
			return "error at once"
		}
		_, err = dial("127.0.0.2:1")
		return fmt.Sprintf("dialing an address of this machine: %v", strings.Contains(fmt.Sprint(err), "refused"))
	}
	compare(t, inputs, nil,
		func(input string) string {
			var d fasthttpproxy.Dialer
			p, except, isTLS := config(input)
			d.HTTPProxy, d.HTTPSProxy, d.CGI, d.NoProxy = p.http, p.https, p.isCGI, except
			dial, err := d.GetDialFuncForTLS(false, isTLS)
			return describe(err, dial)
		},
		func(input string) string {
			var d sluiceproxy.Dialer
			p, except, isTLS := config(input)
			d.HTTPProxy, d.HTTPSProxy, d.CGI, d.NoProxy = p.http, p.https, p.isCGI, except
			dial, err := d.GetDialFuncForTLS(false, isTLS)
			return describe(err, dial)
		})
}

// TestProxyOfThisMachine: what goes through a proxy where no address can be
// excepted. Inputs are the proxies and the function, for http, https or by port.
func TestProxyOfThisMachine(t *testing.T) {
	proxied := newTunnels(t)
	target := newAnswerer(t, nil).Addr().String()
	config := func(input string) (http, https, by string) {
		words := strings.Fields(strings.ReplaceAll(input, "proxy", "http://"+proxied.Addr().String()))
		return strings.Trim(words[0], "-"), strings.Trim(words[1], "-"), words[2]
	}
	describe := func(dial func(addr string) (net.Conn, error), err error) string {
		if err != nil {
			return "error at once"
		}
		before := proxied.conns.Load()
		c, err := dial(target)
		if err != nil {
			return "error"
		}
		defer c.Close()
		return fmt.Sprint("through the proxy: ", proxied.conns.Load() > before)
	}
	inputs := lines("proxy proxy http|proxy proxy https|proxy proxy port|proxy - http|proxy - https|proxy - port|- proxy http|- proxy https|- proxy port|ftp://p ftp://p port")
	known := differences{}.and("L13", "proxy proxy http", "proxy proxy https", "proxy proxy port", "proxy - http", "- proxy https", "ftp://p ftp://p port")
	compare(t, inputs, known,
		func(input string) string {
			var d fasthttpproxy.Dialer
			var by string
			if d.HTTPProxy, d.HTTPSProxy, by = config(input); by == "port" {
				dial, err := d.GetDialFunc(false)
				return describe(dial, err)
			}
			dial, err := d.GetDialFuncForTLS(false, by == "https")
			return describe(dial, err)
		},
		func(input string) string {
			var d sluiceproxy.Dialer
			var by string
			if d.HTTPProxy, d.HTTPSProxy, by = config(input); by == "port" {
				dial, err := d.GetDialFunc(false)
				return describe(dial, err)
			}
			dial, err := d.GetDialFuncForTLS(false, by == "https")
			return describe(dial, err)
		})
}

// tunnels is a proxy that counts connections and makes tunnels to nowhere.
type tunnels struct {
	net.Listener
	conns atomic.Int32
}

func newTunnels(t *testing.T) *tunnels {
	t.Helper()
	p := &tunnels{}
	p.Listener = serveEach(t, func(c net.Conn) {
		defer c.Close()
		p.conns.Add(1)
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			_, _ = br.Peek(1)
		}
	})
	return p
}

// TestPipesHoldWrites: how many Writes of a megabyte a pipe holds (4.8).
func TestPipesHoldWrites(t *testing.T) {
	count := func(c net.Conn) string {
		_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
		n := 0
		for ; n < 10; n++ {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		return fmt.Sprint(n)
	}
	compare(t, []string{"1 MiB"}, nil,
		func(string) string { return count(fasthttputil.NewPipeConns().Conn1()) },
		func(string) string { return count(sluiceutil.NewPipeConns().Conn1()) })
}

// TestExpvarCounters: both handlers have their counters, in one program (4.8).
func TestExpvarCounters(t *testing.T) {
	names := func(body []byte) string {
		var vars map[string]any
		if err := json.Unmarshal(body, &vars); err != nil {
			return err.Error()
		}
		_, calls := vars["expvarHandlerCalls"].(float64)
		_, errors := vars["expvarRegexpErrors"].(float64)
		if calls { // they differ from call to call
			return fmt.Sprint(len(vars), calls, errors)
		}
		return string(body)
	}
	compare(t, []string{"/?r=^expvar", "/?r=^expvarR", "/?r=none"}, nil,
		func(target string) string {
			var ctx fasthttp.RequestCtx
			ctx.Request.SetRequestURI(target)
			expvarhandler.ExpvarHandler(&ctx)
			return names(ctx.Response.Body())
		},
		func(target string) string {
			var ctx sluice.RequestCtx
			ctx.Init(nil, nil, nil)
			ctx.Request.SetRequestURI(target)
			sluiceexpvar.ExpvarHandler(&ctx)
			return names(ctx.Response.Body())
		})
}

type fasthttpTripper func() (bool, error)

func (f fasthttpTripper) RoundTrip(*fasthttp.HostClient, *fasthttp.Request, *fasthttp.Response) (bool, error) {
	return f()
}

type sluiceTripper func() (bool, error)

func (f sluiceTripper) RoundTrip(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error) {
	return f()
}

// TestTransportRepeats: how often a RoundTripper of one's own is called that fails, by the method, and whether it says
// that another attempt may succeed.
func TestTransportRepeats(t *testing.T) {
	inputs := lines("GET true|GET false|HEAD true|PUT true|POST true|PATCH true|DELETE true")
	count := func(input string, do func(method string, trip func() (bool, error)) error) string {
		method, retry, _ := strings.Cut(input, " ")
		calls := 0
		err := do(method, func() (bool, error) { calls++; return retry == "true", io.ErrUnexpectedEOF })
		return fmt.Sprint(calls, err)
	}
	compare(t, inputs, differences{}.and("L22", "DELETE true"),
		func(input string) string {
			return count(input, func(method string, trip func() (bool, error)) error {
				var req fasthttp.Request
				var resp fasthttp.Response
				req.Header.SetMethod(method)
				req.SetRequestURI("http://h/")
				return (&fasthttp.HostClient{Addr: "h:80", Transport: fasthttpTripper(trip)}).Do(&req, &resp)
			})
		},
		func(input string) string {
			return count(input, func(method string, trip func() (bool, error)) error {
				var req sluice.Request
				var resp sluice.Response
				req.Header.SetMethod(method)
				req.SetRequestURI("http://h/")
				return (&sluice.HostClient{Addr: "h:80", Transport: sluiceTripper(trip)}).Do(&req, &resp)
			})
		})
}
