package otel

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/router"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// patience bounds waits that normally take milliseconds.
const patience = 20 * time.Second

// A receiver is a collector: it receives spans by OTLP over HTTP.
type receiver struct {
	mu       sync.Mutex
	spans    []*otlp.Span
	services map[*otlp.Span]string // service.name, of those that have one
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "not a request of OTLP", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.services == nil {
		r.services = map[*otlp.Span]string{}
	}
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
			for _, span := range scope.Spans {
				for _, a := range resource.Resource.GetAttributes() {
					if a.Key == "service.name" {
						r.services[span] = a.Value.GetStringValue()
					}
				}
			}
		}
	}
}

// span returns the span of a kind, with that name, when it has arrived.
func (r *receiver) span(t *testing.T, kind otlp.Span_SpanKind, name string) *otlp.Span {
	t.Helper()
	var found *otlp.Span
	until(t, name, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.spans, func(s *otlp.Span) bool { return s.Kind == kind && s.Name == name })
		if i >= 0 {
			found = r.spans[i]
		}
		return i >= 0
	})
	return found
}

// count returns the number of spans.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

// until waits for a condition.
func until(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// text returns the attributes of a span as "name=value", sorted, without those that differ
// from run to run.
func text(s *otlp.Span) string {
	var all []string
	for _, a := range s.Attributes {
		switch {
		case a.Key == "server.port" || strings.HasPrefix(a.Key, "network.peer."):
		case a.Value.GetStringValue() != "":
			value, _, _ := strings.Cut(a.Value.GetStringValue(), "?") // the URL has a port
			all = append(all, a.Key+"="+value)
		default:
			all = append(all, a.Key+"="+attribute.Int64Value(a.Value.GetIntValue()).Emit())
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// setup returns Options that export each span at once to a receiver, and the metrics.
func setup(t *testing.T) (Options, *receiver, *sdkmetric.ManualReader) {
	t.Helper()
	r := &receiver{}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(s.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	reader := sdkmetric.NewManualReader()
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { traces.Shutdown(context.Background()); metrics.Shutdown(context.Background()) })
	return Options{TracerProvider: traces, MeterProvider: metrics}, r, reader
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// serve serves and returns the address.
func serve(t *testing.T, handler sluice.RequestHandler, register ...interface{ Register(*sluice.Server) error }) string {
	t.Helper()
	server := &sluice.Server{Handler: handler, Logger: quiet{}}
	for _, r := range register {
		if err := r.Register(server); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(ln)
	t.Cleanup(func() { server.Shutdown() })
	return ln.Addr().String()
}

// A request through two servers is one trace: client, server, client, server.
func TestOneTrace(t *testing.T) {
	o, r, reader := setup(t)
	client := NewClient(&sluice.Client{}, o)
	var member string
	inner := serve(t, Handler(func(ctx *sluice.RequestCtx) {
		member = baggage.FromContext(Context(ctx)).Member("user").Value()
		ctx.SetBodyString("inner")
	}, o))
	var routes router.Router
	routes.Handle("GET /outer/{id}", func(ctx *sluice.RequestCtx) {
		req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
		req.SetRequestURI("http://" + inner + "/inner")
		if err := client.DoContext(Context(ctx), req, resp); err != nil {
			t.Error(err)
		}
		ctx.SetBody(resp.Body())
	})
	outer := serve(t, Handler(routes.Handler, o))
	user, err := baggage.NewMember("user", "u7")
	if err != nil {
		t.Fatal(err)
	}
	carried, err := baggage.New(user)
	if err != nil {
		t.Fatal(err)
	}
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	req.SetRequestURI("http://" + outer + "/outer/7?q=1")
	if err := client.DoContext(baggage.ContextWithBaggage(t.Context(), carried), req, resp); err != nil {
		t.Fatal(err)
	}
	if string(resp.Body()) != "inner" || member != "u7" {
		t.Errorf("%q, baggage %q", resp.Body(), member)
	}
	until(t, "four spans", func() bool { return r.count() == 4 })
	byID := map[string]*otlp.Span{}
	var leaf *otlp.Span
	for _, s := range r.spans {
		byID[string(s.SpanId)] = s
		if s.Kind == otlp.Span_SPAN_KIND_SERVER && s.Name == "GET" {
			leaf = s
		}
	}
	var names []string
	for s := leaf; s != nil; s = byID[string(s.ParentSpanId)] {
		names = append(names, strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")+" "+s.Name)
		if string(s.TraceId) != string(leaf.TraceId) {
			t.Errorf("trace %s, not %s", hex.EncodeToString(s.TraceId), hex.EncodeToString(leaf.TraceId))
		}
	}
	if want := []string{"SERVER GET", "CLIENT GET", "SERVER GET /outer/{id}", "CLIENT GET"}; !slices.Equal(names, want) {
		t.Errorf("from the inside: %q, want %q", names, want)
	}
	if got, want := text(r.span(t, otlp.Span_SPAN_KIND_SERVER, "GET /outer/{id}")), "client.address=127.0.0.1 http.request.method=GET http.response.status_code=200 http.route=/outer/{id} network.protocol.version=1.1 server.address=127.0.0.1 url.path=/outer/7 url.query=q=1 url.scheme=http user_agent.original=sluice"; got != want {
		t.Errorf("server: %s\nwant    %s", got, want)
	}
	if got, want := text(byID[string(leaf.ParentSpanId)]), "http.request.method=GET http.response.status_code=200 network.protocol.version=1.1 server.address=127.0.0.1 url.full=http://"+inner+"/inner url.scheme=http"; got != want {
		t.Errorf("client: %s\nwant    %s", got, want)
	}
	checkMetrics(t, reader, map[string]uint64{"http.server.request.duration": 2, "http.client.request.duration": 2, "http.server.active_requests": 0})
}

// checkMetrics compares the counts of histograms and the sums of counters.
func checkMetrics(t *testing.T, reader *sdkmetric.ManualReader, want map[string]uint64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			var got uint64
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					got += p.Count
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got += uint64(p.Value)
				}
			}
			if n, isWanted := want[m.Name]; !isWanted || got != n {
				t.Errorf("%s: %d, want %d", m.Name, got, n)
			}
			delete(want, m.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
}

// What makes a span an error, and of which type.
func TestStatusOfServers(t *testing.T) {
	for name, c := range map[string]struct {
		handler sluice.RequestHandler
		request string
		span    string
		isError bool
		want    []string // some of the attributes
	}{
		"found":   {func(ctx *sluice.RequestCtx) {}, "HEAD / HTTP/1.1\r\nHost: example.com", "HEAD", false, []string{"http.response.status_code=200", "server.address=example.com"}},
		"missing": {func(ctx *sluice.RequestCtx) { ctx.NotFound() }, "GET / HTTP/1.0", "GET", false, []string{"http.response.status_code=404", "network.protocol.version=1.0"}},
		"failure": {func(ctx *sluice.RequestCtx) { ctx.Error("", 503) }, "GET / HTTP/1.0", "GET", true, []string{"http.response.status_code=503", "error.type=503"}},
		"panic":   {func(ctx *sluice.RequestCtx) { panic("on purpose") }, "GET / HTTP/1.0", "GET", true, []string{"http.response.status_code=500", "error.type=panic"}},
		"late":    {func(ctx *sluice.RequestCtx) { ctx.TimeoutErrorWithCode("", 504) }, "GET / HTTP/1.0", "GET", true, []string{"http.response.status_code=504", "error.type=504"}},
		"method":  {func(ctx *sluice.RequestCtx) {}, "BREW / HTTP/1.0", "HTTP", false, []string{"http.request.method=_OTHER", "http.request.method_original=BREW"}},
		"list":    {func(ctx *sluice.RequestCtx) {}, "GET / HTTP/1.0\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=1\r\ntracestate: b=2", "GET", false, nil},
		"invalid": {func(ctx *sluice.RequestCtx) {}, "GET / HTTP/1.0\r\ntraceparent: 00-zz-00-01", "GET", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o, r, reader := setup(t)
			addr := serve(t, Handler(c.handler, o))
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, c.request+"\r\nConnection: close\r\n\r\n")
			io.Copy(io.Discard, conn)
			s := r.span(t, otlp.Span_SPAN_KIND_SERVER, c.span)
			if got := s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR; got != c.isError {
				t.Errorf("an error: %v, %v", got, s.Status)
			}
			all := " " + text(s) + " "
			for _, want := range c.want {
				if !strings.Contains(all, " "+want+" ") {
					t.Errorf("there is no %s in %s", want, all)
				}
			}
			if !c.isError && strings.Contains(all, " error.type=") {
				t.Error(all)
			}
			if hasParent := len(s.ParentSpanId) > 0; hasParent != (name == "list") || hasParent && s.TraceState != "a=1,b=2" {
				t.Errorf("parent %x, state %q", s.ParentSpanId, s.TraceState)
			}
			until(t, "measured", func() bool {
				var all metricdata.ResourceMetrics
				return reader.Collect(t.Context(), &all) == nil && len(all.ScopeMetrics) > 0 && len(all.ScopeMetrics[0].Metrics) == 2
			})
			checkMetrics(t, reader, map[string]uint64{"http.server.request.duration": 1, "http.server.active_requests": 0})
		})
	}
}

// The span of a WebSocket ends with the connection.
func TestWebSocket(t *testing.T) {
	o, r, reader := setup(t)
	for name, c := range map[string]struct {
		code    websocket.Code
		isError bool
	}{"normal": {websocket.CodeNormal, false}, "error": {websocket.CodeInternal, true}} {
		t.Run(name, func(t *testing.T) {
			o.Route = func(*sluice.RequestCtx) string { return name }
			endpoint := &websocket.Endpoint{OnMessage: func(conn *websocket.Conn, m websocket.Message) error { return conn.Close(c.code, "") }}
			addr := serve(t, Handler(func(ctx *sluice.RequestCtx) { endpoint.Upgrade(ctx, nil) }, o))
			before := r.count()
			conn, err := websocket.Dial(t.Context(), "ws://"+addr+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			until(t, "open", func() bool { return endpoint.Stats().Open == 1 })
			if r.count() != before {
				t.Error("the span has ended while the connection is open")
			}
			if err := conn.Write(t.Context(), websocket.Text, []byte("end")); err != nil {
				t.Fatal(err)
			}
			conn.Read(t.Context())
			conn.Close(websocket.CodeNormal, "")
			s := r.span(t, otlp.Span_SPAN_KIND_SERVER, "GET "+name)
			if isError := s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR; isError != c.isError || !strings.Contains(text(s), "http.response.status_code=101") {
				t.Errorf("%v, %s", s.Status, text(s))
			}
		})
	}
	checkMetrics(t, reader, map[string]uint64{"http.server.request.duration": 2, "http.server.active_requests": 0})
}

// The span of server-sent events ends with the stream; an answer that takes its place ends
// it with the handler.
func TestEvents(t *testing.T) {
	o, r, _ := setup(t)
	hub, err := sse.New(sse.Options{Name: "news"})
	if err != nil {
		t.Fatal(err)
	}
	o.Route = func(ctx *sluice.RequestCtx) string { return string(ctx.Path()) }
	addr := serve(t, Handler(func(ctx *sluice.RequestCtx) {
		if err := hub.Serve(ctx, "a"); err != nil {
			t.Error(err)
		}
		if string(ctx.Path()) == "/refused" {
			ctx.Error("no", 403)
		}
	}, o))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /refused HTTP/1.1\r\nHost: h\r\n\r\nGET /events HTTP/1.1\r\nHost: h\r\n\r\n")
	r.span(t, otlp.Span_SPAN_KIND_SERVER, "GET /refused")
	until(t, "stream", func() bool { return hub.Len("a") == 1 })
	if err := hub.Publish("a", sse.Event{Data: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != "data: hello"; {
	}
	if n := r.count(); n != 1 {
		t.Errorf("%d spans while the stream is open", n)
	}
	conn.Close()
	s := r.span(t, otlp.Span_SPAN_KIND_SERVER, "GET /events")
	if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("%v", s.Status)
	}
}

// Errors of a client are told by their type.
func TestErrorsOfClients(t *testing.T) {
	o, r, reader := setup(t)
	client := NewClient(&sluice.Client{MaxIdemponentCallAttempts: 1}, o)
	addr := serve(t, func(ctx *sluice.RequestCtx) { ctx.NotFound() })
	for uri, want := range map[string]string{
		"http://" + addr + "/":       "404",
		"http://user:pw@" + addr:     "404",
		"http://127.0.0.1:1/refused": "syscall.Errno",
	} {
		req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
		req.Header.SetMethod("PUT")
		req.SetRequestURI(uri)
		err := client.DoContext(t.Context(), req, resp)
		if (err != nil) != (want != "404") {
			t.Errorf("%s: %v", uri, err)
		}
		s := r.span(t, otlp.Span_SPAN_KIND_CLIENT, "PUT")
		all := text(s)
		if s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || !strings.Contains(all, "error.type="+want+" ") || strings.Contains(all, "pw") {
			t.Errorf("%s: %v, %s", uri, s.Status, all)
		}
		r.mu.Lock()
		r.spans = nil
		r.mu.Unlock()
	}
	checkMetrics(t, reader, map[string]uint64{"http.client.request.duration": 3})
}

func TestErrorType(t *testing.T) {
	if got := errorType(context.DeadlineExceeded); got != "timeout" {
		t.Errorf("%s", got)
	}
	for want, err := range map[string]error{
		"timeout":            sluice.ErrTimeout,
		"errors.errorString": errors.New("x"),
		"net.AddrError":      &net.OpError{Op: "dial", Err: &net.AddrError{}},
	} {
		if got := errorType(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// Requests that are skipped have neither, and without providers nothing happens.
func TestSkip(t *testing.T) {
	o, r, _ := setup(t)
	o.MeterProvider = noop.NewMeterProvider()
	o.Skip = func(ctx *sluice.RequestCtx) bool { return true }
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	Handler(func(ctx *sluice.RequestCtx) {
		if Context(ctx) != context.Context(ctx) {
			t.Error("there is a span")
		}
	}, o)(&ctx)
	if r.count() != 0 {
		t.Error("there is a span")
	}
	isCalled := false
	Handler(func(*sluice.RequestCtx) { isCalled = true }, Options{})(&ctx)
	if !isCalled || api.GetTracerProvider() == nil {
		t.Error("not called")
	}
}

// A server that keeps names as they were sent has those of Go's clients as Traceparent.
func TestHeadersInAnySpelling(t *testing.T) {
	var h sluice.RequestHeader
	h.DisableNormalizing()
	h.Set("Traceparent", "00-1")
	if got := (headers{&h}).Get("traceparent"); got != "00-1" {
		t.Errorf("%q", got)
	}
}
