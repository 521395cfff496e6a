package relaytest

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/backplane"
	"github.com/sluicehttp/sluice/sse"
)

// History tests three Hubs of events on planes that are connected: a Hub that begins gets the
// history of the others, and what comes meanwhile comes once.
func History(t *testing.T, planes []backplane.Backplane) {
	const before, meanwhile = 200, 50
	var hubs []*sse.Hub
	begin := func() {
		hub, err := sse.New(sse.Options{Name: "history", Backplane: planes[len(hubs)], History: 1000})
		if err != nil {
			t.Fatal(err)
		}
		hubs = append(hubs, hub)
	}
	publish := func(hub *sse.Hub, count int) {
		for range count {
			if err := hub.Publish("t", sse.Event{Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	await := func(events int) {
		t.Helper()
		for i, hub := range hubs {
			for end := time.Now().Add(20 * time.Second); hub.Stats().Events != events; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("hub %d has %d events, not %d", i, hub.Stats().Events, events)
				}
			}
		}
	}
	begin()
	publish(hubs[0], before)
	begin()
	await(before)
	begin()
	publish(hubs[0], meanwhile)
	publish(hubs[1], meanwhile)
	await(before + 2*meanwhile)
}
