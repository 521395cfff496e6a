package sluice

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
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
				dup := assigned(original)
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
				all = append(all, assigned(v))
			}
			c.changes[names[random.IntN(len(names))]](v)
			for _, each := range all {
				c.show(each)
			}
		}
	}
}

func showArgs(a *Args) string {
	var text strings.Builder
	for key, value := range a.All() {
		fmt.Fprintf(&text, "%s=%s;", key, value)
	}
	return fmt.Sprint(text.String(), a.Len(), a)
}

var longValue = strings.Repeat("long", 40)

func copiedArgs() valueCopies[Args] {
	return valueCopies[Args]{
		func() *Args { a := &Args{}; a.Parse("a=11&b=22&c=33"); return a }, showArgs,
		map[string]func(*Args){
			"Set":         func(a *Args) { a.Set("a", "9") },
			"Set long":    func(a *Args) { a.Set("a", longValue) },
			"SetNoValue":  func(a *Args) { a.SetNoValue("b") },
			"Add":         func(a *Args) { a.Add("d", "4") },
			"Add long":    func(a *Args) { a.Add("d", longValue) },
			"Del":         func(a *Args) { a.Del("a") },
			"Del, Add":    func(a *Args) { a.Del("a"); a.Add("z", "26") },
			"Parse":       func(a *Args) { a.Parse("x=1&y=2") },
			"Parse long":  func(a *Args) { a.Parse("x=1&y=" + longValue) },
			"Reset":       func(a *Args) { a.Reset() },
			"Reset, Add":  func(a *Args) { a.Reset(); a.Add("q", "9") },
			"Sort":        func(a *Args) { a.Sort(func(x, y []byte) int { return bytes.Compare(y, x) }) },
			"SortKeys":    func(a *Args) { a.SortKeys(func(x, y []byte) int { return bytes.Compare(y, x) }) },
			"CopyTo":      func(a *Args) { var from Args; from.Add("s", "1"); from.CopyTo(a) },
			"CopyTo long": func(a *Args) { var from Args; from.Add("s", longValue); from.CopyTo(a) },
		},
	}
}

func copiedURI() valueCopies[URI] {
	parsed := func(u *URI, text string) {
		if err := u.Parse(nil, []byte(text)); err != nil {
			panic(err)
		}
	}
	return valueCopies[URI]{
		func() *URI {
			u := &URI{}
			parsed(u, "https://user:pass@host.example/first/path%20x?a=11&b=22#hash")
			return u
		},
		func(u *URI) string {
			return fmt.Sprintf("%s %s %s %s %s %s %s %s %s %s %s", u.Scheme(), u.Username(), u.Password(), u.Host(), u.PathOriginal(), u.Path(), u.QueryString(),
				u.Hash(), bytes.Clone(u.FullURI()), bytes.Clone(u.RequestURI()), showArgs(u.QueryArgs()))
		},
		map[string]func(*URI){
			"SetScheme":      func(u *URI) { u.SetScheme("http") },
			"SetHost":        func(u *URI) { u.SetHost("h") },
			"SetUsername":    func(u *URI) { u.SetUsername("v") },
			"SetPassword":    func(u *URI) { u.SetPassword("v") },
			"SetPath":        func(u *URI) { u.SetPath("/x") },
			"SetPath long":   func(u *URI) { u.SetPath(longValue) },
			"SetQueryString": func(u *URI) { u.SetQueryString("z=1") },
			"SetHash":        func(u *URI) { u.SetHash("z") },
			"Update":         func(u *URI) { u.Update("../else?f=1") },
			"Update query":   func(u *URI) { u.Update("?f=1") },
			"Update all":     func(u *URI) { u.Update("//other.example/p") },
			"Parse":          func(u *URI) { parsed(u, "http://z/y?x#w") },
			"Reset":          func(u *URI) { u.Reset() },
			"Reset, Parse":   func(u *URI) { u.Reset(); parsed(u, "http://z/y?x#w") },
			"QueryArgs":      func(u *URI) { u.QueryArgs().Set("a", "9") },
			"CopyTo":         func(u *URI) { var from URI; parsed(&from, "http://c/d?e=1"); from.CopyTo(u) },
		},
	}
}

func copiedCookie() valueCopies[Cookie] {
	return valueCopies[Cookie]{
		func() *Cookie {
			c := &Cookie{}
			if err := c.Parse("name=value; path=/first; domain=first.example; max-age=9; HttpOnly"); err != nil {
				panic(err)
			}
			return c
		},
		func(c *Cookie) string {
			return fmt.Sprintf("%s %s %s %s %s", c.Key(), c.Value(), c.Path(), c.Domain(), c.Cookie())
		},
		map[string]func(*Cookie){
			"SetKey":         func(c *Cookie) { c.SetKey("k") },
			"SetValue":       func(c *Cookie) { c.SetValue("v") },
			"SetValue long":  func(c *Cookie) { c.SetValue(longValue) },
			"SetPath":        func(c *Cookie) { c.SetPath("/x") },
			"SetDomain":      func(c *Cookie) { c.SetDomain("d") },
			"SetExpire":      func(c *Cookie) { c.SetExpire(time.Unix(5e8, 0)) },
			"SetMaxAge":      func(c *Cookie) { c.SetMaxAge(3) },
			"SetPartitioned": func(c *Cookie) { c.SetPartitioned(true) },
			"Parse":          func(c *Cookie) { _ = c.Parse("z=1; path=/z") },
			"Reset":          func(c *Cookie) { c.Reset() },
			"Reset, SetKey":  func(c *Cookie) { c.Reset(); c.SetKey("k") },
			"CopyTo":         func(c *Cookie) { var from Cookie; from.SetKey("s"); from.SetValue("t"); c.CopyTo(&from) },
		},
	}
}

// copiedTrailers is a header with trailer fields.
func copiedTrailers() valueCopies[RequestHeader] {
	set := func(h *RequestHeader, name, value string) {
		if err := h.AddTrailer(name); err != nil {
			panic(err)
		}
		h.Set(name, value)
	}
	return valueCopies[RequestHeader]{
		func() *RequestHeader {
			h := &RequestHeader{}
			h.SetMethod("POST")
			h.Set("X-Head", "1")
			h.SetCookie("a", "1")
			set(h, "X-A", "first")
			set(h, "X-B", "second")
			return h
		},
		func(h *RequestHeader) string {
			return fmt.Sprintf("%q %q %q %s", h.PeekTrailerKeys(), h.TrailerHeader(), h.Peek("X-A"), h)
		},
		map[string]func(*RequestHeader){
			"AddTrailer":   func(h *RequestHeader) { set(h, "X-C", "third") },
			"SetTrailer":   func(h *RequestHeader) { _ = h.SetTrailer("X-C, X-A") },
			"no trailers":  func(h *RequestHeader) { _ = h.SetTrailer("") },
			"Set":          func(h *RequestHeader) { h.Set("X-A", "9") },
			"Set long":     func(h *RequestHeader) { h.Set("X-A", longValue) },
			"Add":          func(h *RequestHeader) { h.Add("X-A", "9") },
			"Del":          func(h *RequestHeader) { h.Del("X-A") },
			"Reset":        func(h *RequestHeader) { h.Reset() },
			"Reset, Add":   func(h *RequestHeader) { h.Reset(); set(h, "X-Z", "z") },
			"CopyTo":       func(h *RequestHeader) { var from RequestHeader; set(&from, "X-S", "s"); from.CopyTo(h) },
			"SetCookie":    func(h *RequestHeader) { h.SetCookie("a", longValue) },
			"DelCookie":    func(h *RequestHeader) { h.DelCookie("a") },
			"in the head":  func(h *RequestHeader) { h.Set("X-Head", longValue) },
			"SetKeepNames": func(h *RequestHeader) { h.DisableNormalizing(); h.Add("x-a", "9") },
		},
	}
}

// copiedCtx is a RequestCtx. Its user values are in one memory always, as with fasthttp.
func copiedCtx() valueCopies[RequestCtx] {
	return valueCopies[RequestCtx]{
		func() *RequestCtx {
			ctx := &RequestCtx{}
			var r Request
			r.Header.SetMethod("POST")
			r.Header.SetContentType("application/x-www-form-urlencoded")
			r.SetRequestURI("http://host.example/first/path?a=11&b=22")
			r.SetBodyString("p=1&q=2")
			ctx.Init(&r, nil, nil)
			ctx.SetBodyString("first")
			ctx.Response.Header.Set("X-R", "1")
			return ctx
		},
		func(ctx *RequestCtx) string {
			return fmt.Sprintf("%s %s %s %s %s %d %s %s", ctx.Path(), ctx.Host(), showArgs(ctx.QueryArgs()), showArgs(ctx.PostArgs()), ctx.PostBody(),
				ctx.Response.StatusCode(), ctx.Response.Body(), ctx.Response.Header.Peek("X-R"))
		},
		map[string]func(*RequestCtx){
			"URI":            func(ctx *RequestCtx) { ctx.URI().SetPath("/q") },
			"SetRequestURI":  func(ctx *RequestCtx) { ctx.Request.SetRequestURI("/n?x=1") },
			"SetHost":        func(ctx *RequestCtx) { ctx.Request.SetHost("n") },
			"QueryArgs":      func(ctx *RequestCtx) { ctx.QueryArgs().Add("n", "1") },
			"PostArgs":       func(ctx *RequestCtx) { ctx.PostArgs().Set("p", "9") },
			"SetBody":        func(ctx *RequestCtx) { ctx.SetBodyString("2nd") },
			"WriteString":    func(ctx *RequestCtx) { _, _ = ctx.WriteString("+") },
			"header":         func(ctx *RequestCtx) { ctx.Response.Header.Set("X-R", longValue) },
			"Error":          func(ctx *RequestCtx) { ctx.Error("e", 500) },
			"Response.Reset": func(ctx *RequestCtx) { ctx.Response.Reset() },
			"Request.Reset":  func(ctx *RequestCtx) { ctx.Request.Reset(); ctx.Request.SetRequestURI("/n") },
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
