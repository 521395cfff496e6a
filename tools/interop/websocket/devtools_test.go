package websocket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/websocket"
)

// A driver opens pages in a Chromium that browse has started with --remote-debugging-port=0.
type driver struct {
	*testing.T
	addr string
}

// newDriver waits until Chromium has written its port to the profile.
func newDriver(t *testing.T, profile string) driver {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		if port, _, isThere := strings.Cut(string(text), "\n"); isThere {
			return driver{t, "127.0.0.1:" + port}
		}
		if time.Now().After(limit) {
			t.Fatal("Chromium does not tell its port")
		}
	}
}

// A tab is a page. Its methods end the test if they fail.
type tab struct {
	*testing.T
	conn *websocket.Conn
	ctx  context.Context
	id   int

	handshakes []int // statuses of the WebSockets that the page has opened
}

// open opens a page.
func (d driver) open(page string) *tab {
	d.Helper()
	request, err := http.NewRequest(http.MethodPut, "http://"+d.addr+"/json/new?"+url.QueryEscape("about:blank"), nil)
	if err != nil {
		d.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		d.Fatal(err)
	}
	defer response.Body.Close()
	var target struct{ WebSocketDebuggerURL string }
	if err := json.NewDecoder(response.Body).Decode(&target); err != nil {
		d.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.Context(), patience)
	d.Cleanup(cancel)
	conn, err := websocket.Dial(ctx, target.WebSocketDebuggerURL, nil)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = conn.Close(websocket.CodeNormal, "") })
	t := &tab{T: d.T, conn: conn, ctx: ctx}
	t.call("Network.enable", nil, nil)
	t.call("Page.navigate", map[string]any{"url": page}, nil)
	return t
}

// call makes a call, and decodes its result.
func (t *tab) call(method string, params map[string]any, result any) {
	t.Helper()
	t.id++
	if params == nil {
		params = map[string]any{}
	}
	if err := t.conn.WriteJSON(t.ctx, map[string]any{"id": t.id, "method": method, "params": params}); err != nil {
		t.Fatal(err)
	}
	for {
		var answer struct {
			ID     int
			Method string
			Params struct{ Response struct{ Status int } }
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := t.conn.ReadJSON(t.ctx, &answer); err != nil {
			t.Fatal(err)
		}
		switch {
		case answer.Method == "Network.webSocketHandshakeResponseReceived":
			t.handshakes = append(t.handshakes, answer.Params.Response.Status)
		case answer.ID != t.id:
		case answer.Error != nil:
			t.Fatalf("%s: %s", method, answer.Error)
		default:
			if result != nil {
				if err := json.Unmarshal(answer.Result, result); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
	}
}

// run evaluates an expression; "" if that fails, as while a page loads.
func (t *tab) run(expression string) string {
	t.Helper()
	var answer struct {
		Result struct{ Value json.RawMessage }
	}
	t.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	return string(bytes.Trim(answer.Result.Value, `"`))
}

// await waits until an expression has a value.
func (t *tab) await(expression, want string) {
	t.Helper()
	got := ""
	for limit := time.Now().Add(patience); got != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s is %q, want %q", expression, got, want)
		}
		got = t.run(expression)
	}
}

// fill sets the values of fields, and submits the form.
func (t *tab) fill(form string, values map[string]string) {
	t.Helper()
	t.await(fmt.Sprintf("document.readyState + !!document.getElementById(%q)", form), "completetrue")
	for field, value := range values {
		t.run(fmt.Sprintf("document.getElementById(%q).value = %q", field, value))
	}
	t.run(fmt.Sprintf("document.getElementById(%q).requestSubmit()", form))
}
