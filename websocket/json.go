package websocket

import (
	"context"
	"encoding/json"
)

// ReadJSON is Read for a message that is JSON, Text or Binary. v is as for json.Unmarshal.
// After an error of encoding/json the connection stays open, and the message was read.
func (c *Conn) ReadJSON(ctx context.Context, v any) error {
	m, err := c.Read(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, v)
}

// WriteJSON is Write for v as JSON, as Text. After an error of encoding/json nothing was
// sent.
func (c *Conn) WriteJSON(ctx context.Context, v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Write(ctx, Text, p)
}
