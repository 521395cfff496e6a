package programs

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/client"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/session"
)

func fiberApp() *fiber.App {
	app := fiber.New()
	app.Use(recover.New())
	app.Get("/package", func(c fiber.Ctx) error { return c.SendString(packageOf(c.RequestCtx())) })
	app.Get("/users/:id<int>", func(c fiber.Ctx) error {
		return c.JSON(fiber.Map{"id": c.Params("id"), "sort": c.Query("sort")})
	})
	app.Post("/users", func(c fiber.Ctx) error {
		var user struct {
			Name string `json:"name" form:"name"`
		}
		if err := c.Bind().Body(&user); err != nil {
			return err
		}
		return c.Status(fiber.StatusCreated).SendString(user.Name)
	})
	app.Post("/upload", func(c fiber.Ctx) error {
		file, err := c.FormFile("file")
		if err != nil {
			return err
		}
		return c.SendString(file.Filename)
	})
	app.Get("/stream", func(c fiber.Ctx) error {
		return c.SendStreamWriter(func(w *bufio.Writer) {
			for _, word := range []string{"one ", "two ", "three"} {
				_, _ = w.WriteString(word)
				_ = w.Flush()
			}
		})
	})
	app.Get("/file", func(c fiber.Ctx) error { return c.SendFile("testdata/page.txt", fiber.SendFile{ByteRange: true}) })
	app.Get("/panic", func(fiber.Ctx) error { panic("oops") })
	app.Get("/error", func(fiber.Ctx) error { return fiber.NewError(fiber.StatusTeapot, "short") })
	app.Get("/session", session.New(), func(c fiber.Ctx) error {
		if session.FromContext(c) == nil {
			return errors.New("no session")
		}
		return c.SendString(c.Cookies("word"))
	})
	return app
}

func TestFiber(t *testing.T) {
	app := fiberApp()
	addr := serve(t, func(l net.Listener) error {
		return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
	}, app.Shutdown)
	body, contentType := form(t)
	do(t, addr, []request{
		{line: "GET /package", status: 200, want: sluice},
		{line: "GET /users/7?sort=up", status: 200, want: `{"id":"7","sort":"up"}`},
		{line: "GET /users/x", status: 404, want: "Not Found"},
		{line: "DELETE /users/7", status: 405, want: "Method Not Allowed"},
		{line: "POST /users", fields: "Content-Type: application/json", body: `{"name":"ann"}`, status: 201, want: "ann"},
		{line: "POST /users", fields: "Content-Type: application/x-www-form-urlencoded", body: "name=b%20c", status: 201, want: "b c"},
		{line: "POST /upload", fields: "Content-Type: " + contentType, body: body, status: 200, want: "a.txt"},
		{line: "GET /stream", status: 200, want: "one two three"},
		{line: "GET /file", status: 200, want: "a page\n"},
		{line: "GET /file", fields: "Range: bytes=2-5", status: 206, want: "page"},
		{line: "GET /panic", status: 500, want: "oops"},
		{line: "GET /error", status: 418, want: "short"},
		{line: "GET /session", fields: "Cookie: word=kept", status: 200, want: "kept"},
	})
}

// TestFiberConnect: an application with a route for CONNECT is asked; one
// without knows of no tunnels.
func TestFiberConnect(t *testing.T) {
	for want, app := range map[int]*fiber.App{200: fiber.New(), 501: fiber.New()} {
		if want == 200 {
			app.Connect("/*", func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusOK) })
		}
		addr := serve(t, func(l net.Listener) error {
			return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
		}, app.Shutdown)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
		if err != nil || response.StatusCode != want {
			t.Errorf("%v, %v, want %d", response, err, want)
		}
	}
}

// TestFiberClient: Fiber's client is built on fasthttp's.
func TestFiberClient(t *testing.T) {
	app := fiberApp()
	addr := serve(t, func(l net.Listener) error {
		return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
	}, app.Shutdown)
	response, err := client.New().Get("http://"+addr+"/users/8", client.Config{Param: map[string]string{"sort": "down"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Close()
	if got := response.String(); response.StatusCode() != 200 || got != `{"id":"8","sort":"down"}` {
		t.Errorf("%d %q", response.StatusCode(), got)
	}
	if got := packageOf(response.RawResponse); got != sluice {
		t.Errorf("the response is one of %s", got)
	}
}
