package websockets

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/websocket"
)

const holdRole = "websocket hold"

// holdConfig is what a holder's process gets.
type holdConfig struct {
	Addr  string
	Conns int
}

// A holder has idle connections, and counts the messages that come.
type holder struct {
	conns int

	mu    sync.Mutex
	count int
	first time.Time
	all   chan time.Duration // has the time from the first message to the last
}

const holdPatience = 60 * time.Second

// hold is the role of a holder's process: it makes the connections, lets each have an
// answer, and prints a line. For each line it waits until all connections have had a message,
// and prints how many ns have passed between the first and the last.
func hold(text []byte) (err error) {
	var config holdConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	h := &holder{conns: config.Conns, all: make(chan time.Duration, 1)}
	endpoint := &websocket.Endpoint{PingAfter: -1, OnMessage: h.take}
	for range config.Conns {
		c, err := websocket.Dial(context.Background(), "ws://"+config.Addr+"/", &websocket.DialOptions{Endpoint: endpoint})
		if err == nil {
			err = c.Write(context.Background(), websocket.Text, []byte("hi"))
		}
		if err != nil {
			return err
		}
	}
	if _, err := h.await(); err != nil {
		return err
	}
	fmt.Println("true")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		span, err := h.await()
		if err != nil {
			return err
		}
		fmt.Println(span.Nanoseconds())
	}
	return nil
}

// take counts a message.
func (h *holder) take(*websocket.Conn, websocket.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		h.first = time.Now()
	}
	if h.count++; h.count == h.conns {
		h.count = 0
		h.all <- time.Since(h.first)
	}
	return nil
}

// await waits for a message of each connection.
func (h *holder) await() (span time.Duration, err error) {
	select {
	case span = <-h.all:
		return span, nil
	case <-time.After(holdPatience):
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return 0, fmt.Errorf("%d of %d messages have come", h.count, h.conns)
}
