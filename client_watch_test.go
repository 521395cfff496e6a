package sluice

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// TestUploadAfterTheAnswer: after an early answer the client goes on writing for as
// long as the server takes something within each refusalTime, and no longer.
func TestUploadAfterTheAnswer(t *testing.T) {
	const pieces = 16 // 256 KiB, the largest write, take half of refusalTime
	for name, reads := range map[string]int{"all is taken, slowly": pieces, "some is taken, then nothing": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := net.Pipe()
			defer server.Close()
			taken := make(chan int, 1)
			go func() {
				br := bufio.NewReaderSize(server, 16)
				for line, err := br.ReadString('\n'); err == nil && line != "\r\n"; {
					line, err = br.ReadString('\n')
				}
				go io.WriteString(server, okAnswer)
				got := 0
				for piece := make([]byte, watchedBody); got < reads; got++ {
					time.Sleep(refusalTime / 8)
					if _, err := io.ReadFull(br, piece); err != nil {
						break
					}
				}
				taken <- got
			}()
			c := &HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return client, nil }}
			req, resp := newCall("POST", "http://h/")
			req.SetBody(make([]byte, pieces*watchedBody))
			if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Errorf("%v, %q", err, resp.Body())
			}
			if got := <-taken; got != reads {
				t.Errorf("the server has taken %d pieces, want %d", got, reads)
			}
		})
	}
}
