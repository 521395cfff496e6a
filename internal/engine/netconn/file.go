package netconn

import (
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// SendFile implements engine.Conn.
func (c *conn) SendFile(f engine.File) {
	if c.hasFile() {
		_ = f.Release()
		panic("sluice: SendFile called twice in a Run")
	}
	c.file = f
}

func (c *conn) hasFile() bool { return c.file.Source != nil }

// flushFile sends the file, waiting for the peer.
func (c *conn) flushFile() error {
	isSent, err := c.sendFile()
	if !isSent {
		err = c.copyFile()
	}
	if err == nil {
		c.dropFile()
		err = c.Err // Done has panicked
	}
	return err
}

// copyFile reads the file and writes it.
func (c *conn) copyFile() error {
	b := buf.Get(gatherSize)
	defer b.Release()
	for c.file.Size > 0 {
		n, err := c.file.ReadPiece(b.B[:gatherSize])
		if err != nil {
			return err
		}
		if _, err := c.Write(b.B[:n]); err != nil {
			return err
		}
		c.file.Advance(n)
	}
	return nil
}

// dropFile releases the file, if there is one.
func (c *conn) dropFile() {
	if err := c.file.Release(); err != nil {
		c.Fail(err)
	}
}
