package websockets

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"unsafe"

	codersocket "github.com/coder/websocket"
	fastsocket "github.com/fasthttp/websocket"
	gobwasws "github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	gorillasocket "github.com/gorilla/websocket"
	lxzangws "github.com/lxzan/gws"
	"github.com/valyala/fasthttp"
)

// A gwsServer has gws call back, with its check of UTF-8.
type gwsServer struct {
	lxzangws.BuiltinEventHandler
	members[*lxzangws.Conn]
	upgrader *lxzangws.Upgrader
}

func newGWS() *gwsServer {
	s := &gwsServer{}
	s.upgrader = lxzangws.NewUpgrader(s, &lxzangws.ServerOption{CheckUtf8Enabled: true})
	return s
}

// Serve implements server.
func (s *gwsServer) Serve(ln net.Listener) error {
	return serveHTTP(ln, func(w http.ResponseWriter, r *http.Request) {
		c, err := s.upgrader.Upgrade(w, r)
		if err == nil {
			go c.ReadLoop()
		}
	})
}

// OnOpen implements gws.Event.
func (s *gwsServer) OnOpen(c *lxzangws.Conn) { s.join(c) }

// OnClose implements gws.Event.
func (s *gwsServer) OnClose(c *lxzangws.Conn, _ error) { s.leave(c) }

// OnMessage implements gws.Event.
func (s *gwsServer) OnMessage(c *lxzangws.Conn, m *lxzangws.Message) {
	defer m.Close()
	if answer(m.Opcode == lxzangws.OpcodeText, m.Bytes()) == nil {
		_ = c.WriteMessage(m.Opcode, m.Bytes())
	}
}

func (s *gwsServer) broadcast(text []byte) (int, error) {
	b := lxzangws.NewBroadcaster(lxzangws.OpcodeText, text)
	defer b.Close()
	return s.each(b.Broadcast)
}

type gorillaServer struct {
	members[*gorillasocket.Conn]
}

func newGorilla() *gorillaServer { return &gorillaServer{} }

// Serve implements server.
func (s *gorillaServer) Serve(ln net.Listener) error {
	upgrader := gorillasocket.Upgrader{}
	return serveHTTP(ln, func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		s.join(c)
		defer s.leave(c)
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || answerUnchecked(kind == gorillasocket.TextMessage, message) != nil || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	})
}

func (s *gorillaServer) broadcast(text []byte) (int, error) {
	prepared, err := gorillasocket.NewPreparedMessage(gorillasocket.TextMessage, text)
	if err != nil {
		return 0, err
	}
	return s.each(func(c *gorillasocket.Conn) error { return c.WritePreparedMessage(prepared) })
}

type fastHTTPServer struct {
	members[*fastsocket.Conn]
}

func newFastHTTP() *fastHTTPServer { return &fastHTTPServer{} }

// Serve implements server.
func (s *fastHTTPServer) Serve(ln net.Listener) error {
	upgrader := fastsocket.FastHTTPUpgrader{}
	return fasthttp.Serve(ln, func(ctx *fasthttp.RequestCtx) {
		_ = upgrader.Upgrade(ctx, func(c *fastsocket.Conn) {
			defer c.Close()
			s.join(c)
			defer s.leave(c)
			for {
				kind, message, err := c.ReadMessage()
				if err != nil || answerUnchecked(kind == fastsocket.TextMessage, message) != nil || c.WriteMessage(kind, message) != nil {
					return
				}
			}
		})
	})
}

func (s *fastHTTPServer) broadcast(text []byte) (int, error) {
	prepared, err := fastsocket.NewPreparedMessage(fastsocket.TextMessage, text)
	if err != nil {
		return 0, err
	}
	return s.each(func(c *fastsocket.Conn) error { return c.WritePreparedMessage(prepared) })
}

type coderServer struct {
	members[*codersocket.Conn]
}

func newCoder() *coderServer { return &coderServer{} }

// Serve implements server.
func (s *coderServer) Serve(ln net.Listener) error {
	return serveHTTP(ln, func(w http.ResponseWriter, r *http.Request) {
		c, err := codersocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(readLimit)
		s.join(c)
		defer s.leave(c)
		for ctx := context.Background(); ; {
			kind, message, err := c.Read(ctx)
			if err != nil || answerUnchecked(kind == codersocket.MessageText, message) != nil || c.Write(ctx, kind, message) != nil {
				return
			}
		}
	})
}

func (s *coderServer) broadcast(text []byte) (int, error) {
	return s.each(func(c *codersocket.Conn) error { return c.Write(context.Background(), codersocket.MessageText, text) })
}

type gobwasServer struct {
	members[net.Conn]
}

func newGobwas() *gobwasServer { return &gobwasServer{} }

// Serve implements server.
func (s *gobwasServer) Serve(ln net.Listener) error {
	return serveHTTP(ln, func(w http.ResponseWriter, r *http.Request) {
		c, _, _, err := gobwasws.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		s.join(c)
		go func() {
			defer c.Close()
			defer s.leave(c)
			for {
				message, kind, err := wsutil.ReadClientData(c)
				if err != nil || answer(kind == gobwasws.OpText, message) != nil || wsutil.WriteServerMessage(c, kind, message) != nil {
					return
				}
			}
		}()
	})
}

func (s *gobwasServer) broadcast(text []byte) (int, error) {
	frame, err := gobwasws.CompileFrame(gobwasws.NewTextFrame(text))
	if err != nil {
		return 0, err
	}
	return s.each(func(c net.Conn) error {
		_, err := c.Write(frame)
		return err
	})
}

// A bareServer broadcasts by a system call for each socket, and nothing else: the runtime's
// scheduler is not told of the calls.
type bareServer struct {
	*gobwasServer
	sockets []int
}

func (s *bareServer) broadcast(text []byte) (sent int, err error) {
	if s.sockets == nil {
		if _, err := s.each(s.addSocket); err != nil {
			return 0, err
		}
	}
	frame, err := gobwasws.CompileFrame(gobwasws.NewTextFrame(text))
	if err != nil {
		return 0, err
	}
	for _, fd := range s.sockets {
		_, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&frame[0])), uintptr(len(frame)))
		if errno != 0 {
			return sent, errno
		}
		sent++
	}
	return sent, nil
}

func (s *bareServer) addSocket(c net.Conn) error {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { s.sockets = append(s.sockets, int(fd)) })
}
