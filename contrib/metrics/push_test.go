package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluicehttp/sluice/contrib/metrics"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

func TestPushCollector(t *testing.T) {
	hub, err := sse.New(sse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Publish("a", sse.Event{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	c := metrics.NewPushCollector()
	c.AddEndpoint("chat", &websocket.Endpoint{})
	c.AddHub("news", hub)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	err = testutil.GatherAndCompare(r, strings.NewReader(`
# HELP sluice_sse_history_events Events in the history.
# TYPE sluice_sse_history_events gauge
sluice_sse_history_events{hub="news"} 1
# HELP sluice_sse_topics Topics with streams, or with events in the history.
# TYPE sluice_sse_topics gauge
sluice_sse_topics{hub="news"} 1
# HELP sluice_websocket_open Open WebSockets.
# TYPE sluice_websocket_open gauge
sluice_websocket_open{endpoint="chat"} 0
`), "sluice_sse_history_events", "sluice_sse_topics", "sluice_websocket_open")
	if err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(r); err != nil || n != 10 {
		t.Errorf("%d metrics, %v", n, err)
	}
}
