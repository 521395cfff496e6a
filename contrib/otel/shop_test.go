package otel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

var (
	zipkinURL = flag.String("zipkin", "", "`URL` of a Zipkin that TestShop shows its trace to, such as http://127.0.0.1:9411")
	jaegerURL = flag.String("jaeger", "", "`URL` of the queries of a Jaeger, such as http://127.0.0.1:16686, to whose OTLP receiver OTEL_EXPORTER_OTLP_ENDPOINT TestShop sends its trace")
)

// service returns Options whose spans are those of a named service.
func service(t *testing.T, exporter sdktrace.SpanExporter, name string) Options {
	t.Helper()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", name))))
	t.Cleanup(func() { traces.Shutdown(context.Background()) })
	return Options{TracerProvider: traces, Route: func(ctx *sluice.RequestCtx) string { return string(ctx.Path()) }}
}

// fetch makes a request of a handler's own and returns the status.
func fetch(t *testing.T, ctx context.Context, client *Client, uri string) int {
	t.Helper()
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.SetRequestURI(uri)
	if err := client.DoContext(ctx, req, resp); err != nil {
		t.Error(err)
	}
	return resp.StatusCode()
}

// stock serves what the front of a shop asks for: /stock, and /prices by WebSocket.
func stock(t *testing.T, o Options) (addr string) {
	t.Helper()
	prices := &websocket.Endpoint{OnMessage: func(c *websocket.Conn, m websocket.Message) error {
		time.Sleep(4 * time.Millisecond)
		return c.Write(context.Background(), m.Kind, []byte("9.90"))
	}}
	return serve(t, Handler(func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/stock":
			time.Sleep(6 * time.Millisecond)
			ctx.SetBodyString("3")
		case "/prices":
			prices.Upgrade(ctx, nil)
		default:
			ctx.NotFound()
		}
	}, o))
}

// askPrices asks for three prices over a WebSocket, whose span is a child of ctx's.
func askPrices(t *testing.T, ctx context.Context, addr string) {
	t.Helper()
	var header sluice.RequestHeader
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for name, value := range carrier {
		header.Set(name, value)
	}
	c, err := websocket.Dial(ctx, "ws://"+addr+"/prices", &websocket.DialOptions{Header: &header})
	if err != nil {
		t.Error(err)
		return
	}
	for range 3 {
		if err := c.Write(ctx, websocket.Text, []byte("price?")); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(ctx); err != nil {
			t.Error(err)
		}
	}
	c.Close(websocket.CodeNormal, "")
}

// A node is a span of a trace.
type node struct {
	id, parent, text string
	start            uint64 // nanoseconds
}

// tree returns the nodes below a parent, in the order of their starts.
func tree(all []node, parent, indent string) (text string) {
	slices.SortFunc(all, func(a, b node) int { return cmp.Compare(a.start, b.start) })
	for _, n := range all {
		if n.parent == parent {
			text += indent + n.text + "\n" + tree(slices.Clone(all), n.id, indent+"  ")
		}
	}
	return text
}

// nodes returns the spans that have come.
func (r *receiver) nodes() (all []node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		all = append(all, node{hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), r.services[s] + " " + kindOf(s) + " " + s.Name, s.StartTimeUnixNano})
	}
	return all
}

func kindOf(s *otlp.Span) string {
	return strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"))
}

// jaegerNodes returns the spans of a trace that a Jaeger has.
func jaegerNodes(url, id string) (all []node, err error) {
	resp, err := http.Get(url + "/api/traces/" + id)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data []struct {
			Spans []struct {
				SpanID, OperationName, ProcessID string
				StartTime                        uint64 // microseconds
				References                       []struct{ SpanID string }
				Tags                             []struct {
					Key   string
					Value any
				}
			}
			Processes map[string]struct{ ServiceName string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	for _, trace := range answer.Data {
		for _, s := range trace.Spans {
			n := node{id: s.SpanID, start: s.StartTime * 1000}
			for _, r := range s.References {
				n.parent = r.SpanID
			}
			for _, tag := range s.Tags {
				if tag.Key == "span.kind" {
					n.text = trace.Processes[s.ProcessID].ServiceName + " " + tag.Value.(string) + " " + s.OperationName
				}
			}
			all = append(all, n)
		}
	}
	return all, nil
}

// showIn sends the spans that have come to a Zipkin, and logs the address of its page.
func (r *receiver) showIn(t *testing.T, url string) {
	t.Helper()
	var all []map[string]any
	for _, s := range r.spans {
		tags := map[string]string{}
		for _, a := range s.Attributes {
			if tags[a.Key] = a.Value.GetStringValue(); tags[a.Key] == "" {
				tags[a.Key] = fmt.Sprint(a.Value.GetIntValue())
			}
		}
		if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
			tags["error"] = tags["error.type"]
		}
		span := map[string]any{
			"traceId": hex.EncodeToString(s.TraceId), "id": hex.EncodeToString(s.SpanId), "name": s.Name, "kind": strings.ToUpper(kindOf(s)),
			"timestamp": s.StartTimeUnixNano / 1000, "duration": (s.EndTimeUnixNano - s.StartTimeUnixNano) / 1000,
			"localEndpoint": map[string]string{"serviceName": r.services[s]}, "tags": tags,
		}
		if len(s.ParentSpanId) > 0 {
			span["parentId"] = hex.EncodeToString(s.ParentSpanId)
		}
		all = append(all, span)
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/api/v2/spans", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Error(resp.Status)
	}
	t.Logf("%s/zipkin/traces/%s", url, all[0]["traceId"])
}

// One request of a client, to a server that asks another one twice and opens a WebSocket there,
// is one trace of three services. A picture of it is in docs/guide/observability.md.
func TestShop(t *testing.T) {
	r := &receiver{}
	s := httptest.NewServer(r)
	defer s.Close()
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(s.URL + "/v1/traces")}
	if *jaegerURL != "" {
		options = []otlptracehttp.Option{otlptracehttp.WithInsecure()} // to OTEL_EXPORTER_OTLP_ENDPOINT, or OTLP's port
	}
	exporter, err := otlptracehttp.New(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	back := stock(t, service(t, exporter, "stock"))
	o := service(t, exporter, "front")
	inner := NewClient(&sluice.Client{}, o)
	var id string
	front := serve(t, Handler(func(ctx *sluice.RequestCtx) {
		in := Context(ctx)
		id = trace.SpanContextFromContext(in).TraceID().String()
		fetch(t, in, inner, "http://"+back+"/stock")
		if status := fetch(t, in, inner, "http://"+back+"/coupon"); status != sluice.StatusNotFound {
			t.Errorf("status %d", status)
		}
		askPrices(t, in, back)
	}, o))
	fetch(t, t.Context(), NewClient(&sluice.Client{}, service(t, exporter, "buyer")), "http://"+front+"/checkout")

	const want = `buyer client GET
  front server GET /checkout
    front client GET
      stock server GET /stock
    front client GET
      stock server GET /coupon
    stock server GET /prices
`
	nodes := func() ([]node, error) { return r.nodes(), nil }
	if *jaegerURL != "" {
		nodes = func() ([]node, error) { return jaegerNodes(*jaegerURL, id) }
	}
	var all []node
	until(t, "all spans have come", func() bool { all, err = nodes(); return len(all) == strings.Count(want, "\n") })
	if got := tree(all, "", ""); got != want || err != nil {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if *zipkinURL != "" {
		r.showIn(t, *zipkinURL)
	}
}
