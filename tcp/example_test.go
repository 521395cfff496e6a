package tcp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/sluicehttp/sluice/tcp"
	"github.com/sluicehttp/sluice/tcplisten"
)

// A handler that gets half a message returns 0. It is called again with these bytes
// and those that follow.
func Example() {
	shout := func(c *tcp.Conn, in []byte) (used int, err error) {
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			return 0, nil
		}
		_, err = c.WriteString(strings.ToUpper(string(in[:end+1])))
		return end + 1, err
	}
	server := &tcp.Server{Handler: shout}
	ln, _ := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:0")
	go server.Serve(ln)
	defer server.Shutdown(context.Background())

	conn, _ := net.Dial("tcp", ln.Addr().String())
	defer conn.Close()
	fmt.Fprint(conn, "hel")
	fmt.Fprint(conn, "lo\nwor")
	fmt.Fprint(conn, "ld\n")
	replies := bufio.NewScanner(conn)
	for range 2 {
		replies.Scan()
		fmt.Println(replies.Text())
	}
	// Output:
	// HELLO
	// WORLD
}

// Each connection's input is sent to all others.
func ExampleSender() {
	var mu sync.Mutex
	room := make(map[*tcp.Sender]bool)
	joined := make(chan bool, 2)
	server := &tcp.Server{
		OnOpen: func(c *tcp.Conn) error {
			mu.Lock()
			defer mu.Unlock()
			room[c.Sender()] = true
			joined <- true
			return nil
		},
		OnClose: func(c *tcp.Conn, _ error) {
			mu.Lock()
			defer mu.Unlock()
			delete(room, c.Sender())
		},
		Handler: func(c *tcp.Conn, in []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			for member := range room {
				if member != c.Sender() && member.TrySend(in) == tcp.ErrFull {
					member.Close() // too slow for this room
				}
			}
			return len(in), nil
		},
	}
	ln, _ := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:0")
	go server.Serve(ln)
	defer server.Shutdown(context.Background())

	ada, _ := net.Dial("tcp", ln.Addr().String())
	defer ada.Close()
	bob, _ := net.Dial("tcp", ln.Addr().String())
	defer bob.Close()
	<-joined
	<-joined
	fmt.Fprintln(ada, "hello, Bob")
	heard, _ := bufio.NewReader(bob).ReadString('\n')
	fmt.Print(heard)
	// Output: hello, Bob
}
