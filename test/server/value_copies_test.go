package server_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// valueCopies is a type whose values programs copy by assignment.
type valueCopies[T any] struct {
	make    func() *T
	show    func(*T) string
	changes map[string]func(*T)
}

// test checks that after an assignment no change of the copy reaches the original, neither at
// once nor after any change of that, and that the copy keeps what was changed.
func (c valueCopies[T]) test(t *testing.T) {
	changed := func(name string) string {
		v := c.make()
		c.changes[name](v)
		return c.show(v)
	}
	before := c.show(c.make())
	names := slices.Sorted(maps.Keys(c.changes))
	for _, isRead := range []bool{false, true} {
		for _, first := range names {
			for _, second := range names {
				original := c.make()
				if isRead {
					c.show(original)
				}
				dup := harness.Assigned(original)
				c.changes[first](dup)
				if got := c.show(original); got != before {
					t.Fatalf("%s of the copy made the original\n%s, which was\n%s", first, got, before)
				}
				c.changes[second](original)
				if got, want := c.show(dup), changed(first); first == second && got != want {
					t.Fatalf("%s of the copy, %s of the original: the copy is\n%s, not\n%s", first, second, got, want)
				}
				if got, want := c.show(original), changed(second); got != want {
					t.Fatalf("%s of the copy, %s of the original: the original is\n%s, not\n%s", first, second, got, want)
				}
			}
		}
	}
}

// churn changes a value and its copies in any order: they may show each other's changes while
// they were not changed themselves, but reading never fails.
func (c valueCopies[T]) churn(t *testing.T) {
	names := slices.Sorted(maps.Keys(c.changes))
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		all := []*T{c.make()}
		for range 40 {
			v := all[random.IntN(len(all))]
			if random.IntN(8) == 0 {
				all = append(all, harness.Assigned(v))
			}
			c.changes[names[random.IntN(len(names))]](v)
			for _, each := range all {
				c.show(each)
			}
		}
	}
}

func showArgs(a *sluice.Args) string {
	var text strings.Builder
	for key, value := range a.All() {
		fmt.Fprintf(&text, "%s=%s;", key, value)
	}
	return fmt.Sprint(text.String(), a.Len(), a)
}

var longValue = strings.Repeat("long", 40)

func copiedArgs() valueCopies[sluice.Args] {
	return valueCopies[sluice.Args]{
		func() *sluice.Args { a := &sluice.Args{}; a.Parse("a=11&b=22&c=33"); return a }, showArgs,
		map[string]func(*sluice.Args){
			"Set":         func(a *sluice.Args) { a.Set("a", "9") },
			"Set long":    func(a *sluice.Args) { a.Set("a", longValue) },
			"SetNoValue":  func(a *sluice.Args) { a.SetNoValue("b") },
			"Add":         func(a *sluice.Args) { a.Add("d", "4") },
			"Add long":    func(a *sluice.Args) { a.Add("d", longValue) },
			"Del":         func(a *sluice.Args) { a.Del("a") },
			"Del, Add":    func(a *sluice.Args) { a.Del("a"); a.Add("z", "26") },
			"Parse":       func(a *sluice.Args) { a.Parse("x=1&y=2") },
			"Parse long":  func(a *sluice.Args) { a.Parse("x=1&y=" + longValue) },
			"Reset":       func(a *sluice.Args) { a.Reset() },
			"Reset, Add":  func(a *sluice.Args) { a.Reset(); a.Add("q", "9") },
			"Sort":        func(a *sluice.Args) { a.Sort(func(x, y []byte) int { return bytes.Compare(y, x) }) },
			"SortKeys":    func(a *sluice.Args) { a.SortKeys(func(x, y []byte) int { return bytes.Compare(y, x) }) },
			"CopyTo":      func(a *sluice.Args) { var from sluice.Args; from.Add("s", "1"); from.CopyTo(a) },
			"CopyTo long": func(a *sluice.Args) { var from sluice.Args; from.Add("s", longValue); from.CopyTo(a) },
		},
	}
}

func copiedURI() valueCopies[sluice.URI] {
	parsed := func(u *sluice.URI, text string) {
		if err := u.Parse(nil, []byte(text)); err != nil {
			panic(err)
		}
	}
	return valueCopies[sluice.URI]{
		func() *sluice.URI {
			u := &sluice.URI{}
			parsed(u, "https://user:pass@host.example/first/path%20x?a=11&b=22#hash")
			return u
		},
		func(u *sluice.URI) string {
			return fmt.Sprintf("%s %s %s %s %s %s %s %s %s %s %s", u.Scheme(), u.Username(), u.Password(), u.Host(), u.PathOriginal(), u.Path(), u.QueryString(),
				u.Hash(), bytes.Clone(u.FullURI()), bytes.Clone(u.RequestURI()), showArgs(u.QueryArgs()))
		},
		map[string]func(*sluice.URI){
			"SetScheme":      func(u *sluice.URI) { u.SetScheme("http") },
			"SetHost":        func(u *sluice.URI) { u.SetHost("h") },
			"SetUsername":    func(u *sluice.URI) { u.SetUsername("v") },
			"SetPassword":    func(u *sluice.URI) { u.SetPassword("v") },
			"SetPath":        func(u *sluice.URI) { u.SetPath("/x") },
			"SetPath long":   func(u *sluice.URI) { u.SetPath(longValue) },
			"SetQueryString": func(u *sluice.URI) { u.SetQueryString("z=1") },
			"SetHash":        func(u *sluice.URI) { u.SetHash("z") },
			"Update":         func(u *sluice.URI) { u.Update("../else?f=1") },
			"Update query":   func(u *sluice.URI) { u.Update("?f=1") },
			"Update all":     func(u *sluice.URI) { u.Update("//other.example/p") },
			"Parse":          func(u *sluice.URI) { parsed(u, "http://z/y?x#w") },
			"Reset":          func(u *sluice.URI) { u.Reset() },
			"Reset, Parse":   func(u *sluice.URI) { u.Reset(); parsed(u, "http://z/y?x#w") },
			"QueryArgs":      func(u *sluice.URI) { u.QueryArgs().Set("a", "9") },
			"CopyTo":         func(u *sluice.URI) { var from sluice.URI; parsed(&from, "http://c/d?e=1"); from.CopyTo(u) },
		},
	}
}

func copiedCookie() valueCopies[sluice.Cookie] {
	return valueCopies[sluice.Cookie]{
		func() *sluice.Cookie {
			c := &sluice.Cookie{}
			if err := c.Parse("name=value; path=/first; domain=first.example; max-age=9; HttpOnly"); err != nil {
				panic(err)
			}
			return c
		},
		func(c *sluice.Cookie) string {
			return fmt.Sprintf("%s %s %s %s %s", c.Key(), c.Value(), c.Path(), c.Domain(), c.Cookie())
		},
		map[string]func(*sluice.Cookie){
			"SetKey":         func(c *sluice.Cookie) { c.SetKey("k") },
			"SetValue":       func(c *sluice.Cookie) { c.SetValue("v") },
			"SetValue long":  func(c *sluice.Cookie) { c.SetValue(longValue) },
			"SetPath":        func(c *sluice.Cookie) { c.SetPath("/x") },
			"SetDomain":      func(c *sluice.Cookie) { c.SetDomain("d") },
			"SetExpire":      func(c *sluice.Cookie) { c.SetExpire(time.Unix(5e8, 0)) },
			"SetMaxAge":      func(c *sluice.Cookie) { c.SetMaxAge(3) },
			"SetPartitioned": func(c *sluice.Cookie) { c.SetPartitioned(true) },
			"Parse":          func(c *sluice.Cookie) { _ = c.Parse("z=1; path=/z") },
			"Reset":          func(c *sluice.Cookie) { c.Reset() },
			"Reset, SetKey":  func(c *sluice.Cookie) { c.Reset(); c.SetKey("k") },
			"CopyTo":         func(c *sluice.Cookie) { var from sluice.Cookie; from.SetKey("s"); from.SetValue("t"); c.CopyTo(&from) },
		},
	}
}

// copiedTrailers is a header with trailer fields.
func copiedTrailers() valueCopies[sluice.RequestHeader] {
	set := func(h *sluice.RequestHeader, name, value string) {
		if err := h.AddTrailer(name); err != nil {
			panic(err)
		}
		h.Set(name, value)
	}
	return valueCopies[sluice.RequestHeader]{
		func() *sluice.RequestHeader {
			h := &sluice.RequestHeader{}
			h.SetMethod("POST")
			h.Set("X-Head", "1")
			h.SetCookie("a", "1")
			set(h, "X-A", "first")
			set(h, "X-B", "second")
			return h
		},
		func(h *sluice.RequestHeader) string {
			return fmt.Sprintf("%q %q %q %s", h.PeekTrailerKeys(), h.TrailerHeader(), h.Peek("X-A"), h)
		},
		map[string]func(*sluice.RequestHeader){
			"AddTrailer":   func(h *sluice.RequestHeader) { set(h, "X-C", "third") },
			"SetTrailer":   func(h *sluice.RequestHeader) { _ = h.SetTrailer("X-C, X-A") },
			"no trailers":  func(h *sluice.RequestHeader) { _ = h.SetTrailer("") },
			"Set":          func(h *sluice.RequestHeader) { h.Set("X-A", "9") },
			"Set long":     func(h *sluice.RequestHeader) { h.Set("X-A", longValue) },
			"Add":          func(h *sluice.RequestHeader) { h.Add("X-A", "9") },
			"Del":          func(h *sluice.RequestHeader) { h.Del("X-A") },
			"Reset":        func(h *sluice.RequestHeader) { h.Reset() },
			"Reset, Add":   func(h *sluice.RequestHeader) { h.Reset(); set(h, "X-Z", "z") },
			"CopyTo":       func(h *sluice.RequestHeader) { var from sluice.RequestHeader; set(&from, "X-S", "s"); from.CopyTo(h) },
			"SetCookie":    func(h *sluice.RequestHeader) { h.SetCookie("a", longValue) },
			"DelCookie":    func(h *sluice.RequestHeader) { h.DelCookie("a") },
			"in the head":  func(h *sluice.RequestHeader) { h.Set("X-Head", longValue) },
			"SetKeepNames": func(h *sluice.RequestHeader) { h.DisableNormalizing(); h.Add("x-a", "9") },
		},
	}
}

// copiedCtx is a RequestCtx. Its user values are in one memory always, as with fasthttp.
func copiedCtx() valueCopies[sluice.RequestCtx] {
	return valueCopies[sluice.RequestCtx]{
		func() *sluice.RequestCtx {
			ctx := &sluice.RequestCtx{}
			var r sluice.Request
			r.Header.SetMethod("POST")
			r.Header.SetContentType("application/x-www-form-urlencoded")
			r.SetRequestURI("http://host.example/first/path?a=11&b=22")
			r.SetBodyString("p=1&q=2")
			ctx.Init(&r, nil, nil)
			ctx.SetBodyString("first")
			ctx.Response.Header.Set("X-R", "1")
			return ctx
		},
		func(ctx *sluice.RequestCtx) string {
			return fmt.Sprintf("%s %s %s %s %s %d %s %s", ctx.Path(), ctx.Host(), showArgs(ctx.QueryArgs()), showArgs(ctx.PostArgs()), ctx.PostBody(),
				ctx.Response.StatusCode(), ctx.Response.Body(), ctx.Response.Header.Peek("X-R"))
		},
		map[string]func(*sluice.RequestCtx){
			"URI":            func(ctx *sluice.RequestCtx) { ctx.URI().SetPath("/q") },
			"SetRequestURI":  func(ctx *sluice.RequestCtx) { ctx.Request.SetRequestURI("/n?x=1") },
			"SetHost":        func(ctx *sluice.RequestCtx) { ctx.Request.SetHost("n") },
			"QueryArgs":      func(ctx *sluice.RequestCtx) { ctx.QueryArgs().Add("n", "1") },
			"PostArgs":       func(ctx *sluice.RequestCtx) { ctx.PostArgs().Set("p", "9") },
			"SetBody":        func(ctx *sluice.RequestCtx) { ctx.SetBodyString("2nd") },
			"WriteString":    func(ctx *sluice.RequestCtx) { _, _ = ctx.WriteString("+") },
			"header":         func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set("X-R", longValue) },
			"Error":          func(ctx *sluice.RequestCtx) { ctx.Error("e", 500) },
			"Response.Reset": func(ctx *sluice.RequestCtx) { ctx.Response.Reset() },
			"Request.Reset":  func(ctx *sluice.RequestCtx) { ctx.Request.Reset(); ctx.Request.SetRequestURI("/n") },
		},
	}
}

// TestValuesCopiedByAssignment: copies of all types have memory of their own from their first
// change on.
func TestValuesCopiedByAssignment(t *testing.T) {
	t.Run("Args", copiedArgs().test)
	t.Run("URI", copiedURI().test)
	t.Run("Cookie", copiedCookie().test)
	t.Run("trailers", copiedTrailers().test)
	t.Run("RequestCtx", copiedCtx().test)
}

// TestChangesOfTheOriginalDoNotBreakCopies: even while a copy shares its memory.
func TestChangesOfTheOriginalDoNotBreakCopies(t *testing.T) {
	t.Run("Args", copiedArgs().churn)
	t.Run("URI", copiedURI().churn)
	t.Run("Cookie", copiedCookie().churn)
	t.Run("trailers", copiedTrailers().churn)
	t.Run("RequestCtx", copiedCtx().churn)
}
