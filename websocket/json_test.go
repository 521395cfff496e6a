package websocket

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// TestJSON: what is read is written; what is no JSON closes nothing.
func TestJSON(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := accepting(t, engine, &Endpoint{}, func(c *Conn) error {
			for {
				var v struct{ Name string }
				var syntax *json.SyntaxError
				switch err := c.ReadJSON(t.Context(), &v); {
				case errors.As(err, &syntax):
					v.Name = syntax.Error()
				case err != nil:
					return err
				}
				if err := c.WriteJSON(t.Context(), func() {}); err == nil {
					t.Error("a function is JSON")
				}
				if err := c.WriteJSON(t.Context(), v); err != nil {
					return err
				}
			}
		})
		c := f.dial()
		c.raw(masked(ws.OpText, `{"Name":"Zoë"}`) + masked(ws.OpBinary, ` {"name":"x"}`) + masked(ws.OpText, `{`))
		c.expect(`text {"Name":"Zoë"}`, `text {"Name":"x"}`, `text {"Name":"unexpected end of JSON input"}`)
	})
}
