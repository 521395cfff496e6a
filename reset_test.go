package sluice

import (
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// isMemory reports whether a field is the result of a getter or scratch memory,
// which is written before it is read.
func isMemory(name string) bool {
	return slices.Contains([]string{
		"buf", "calls", "chunkedText", "clean", "closeText", "fullURI", "joined", "lengthText", "names", "peeked", "requestURI",
		"scratch", "serverText", "text", "typeText", "versionText", "wire",
	}, name)
}

// TestResetLeavesNothing: what goes back to a pool, or to the next request of a
// connection, has nothing of the last one. Every field of these types is set;
// after the reset every one is zero or empty but those that are named here.
func TestResetLeavesNothing(t *testing.T) {
	owned := []string{"owner"} // where the value is
	header := []string{
		"trailer",      // reset itself
		"match",        // reset itself
		"writer",       // emptied after each use
		"owner",        // as above
		"strayWriters", // outlive a reset by a handler; a RequestCtx that has some serves no other request
	}
	response := slices.Concat(header, []string{
		"closesByLength", // set with every head that is read
		"DefaultServer",  // of the server, not of the response
		"DefaultAltSvc",  // the same
		"start",          // what the last head began with
	})
	settings := slices.Concat(response, []string{"KeepBodyBuffer"})
	ctx := slices.Concat(response, []string{
		"server", "cfg", "exchange", "facts", // of the connection
		"start", "content", "letsGo", "maxBodySize", "readTimeout", // set with every request
		"form", "sentHead", // set with every response
		"done", "isDetached", "isWriting", // of a context that is not used again
		"kept", // what package proxy keeps with the RequestCtx
	})
	for _, c := range []struct {
		name  string
		reset func() any // returns what was filled and reset
		keeps []string
	}{
		{"RequestHeader.Reset", filled((*RequestHeader).Reset), header},
		{"ResponseHeader.Reset", filled((*ResponseHeader).Reset), response},
		{"Request.Reset", filled((*Request).Reset), settings},
		{"Request.resetForServer", filled((*Request).resetForServer), header},
		{"Request.recycle", filled((*Request).recycle), header},
		{"Response.Reset", filled((*Response).Reset), settings},
		{"Response.resetForServer", filled((*Response).resetForServer), response},
		{"Response.recycle", filled((*Response).recycle), response},
		{"URI.Reset", filled((*URI).Reset), owned},
		{"Cookie.Reset", filled((*Cookie).Reset), owned},
		{"Args.Reset", filled((*Args).Reset), owned},
		{"valueList.reset", filled((*valueList).reset), nil},
		{"requestStream.reset", filled((*requestStream).reset), nil},
		{"servedRequest.End", filled(endCtx), ctx},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, path := range remains(c.reset()) {
				if !isNamed(path, c.keeps) {
					t.Errorf("%s is left", path)
				}
			}
		})
	}
}

// isNamed reports whether a part of path is in names, or path leads to memory.
func isNamed(path string, names []string) bool {
	parts := strings.Split(path, ".")
	return isMemory(parts[len(parts)-1]) || slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(names, part) })
}

func endCtx(ctx *RequestCtx) {
	ctx.cfg = &serverConfig{}
	ctx.done.Store(nil) // no other goroutine uses ctx
	ctx.Response.strayWriters = 0
	(*servedRequest)(ctx).End()
}

// TestCopyToLeavesNothingOut: a copy has all fields of the original but those that
// are named.
func TestCopyToLeavesNothingOut(t *testing.T) {
	header := []string{
		"ShowsServer",    // the copy has the name as a field
		"closesByLength", // set with every head that is read
		"DefaultServer",  // of the server, not of the response
		"DefaultAltSvc",  // the same
		"start",          // what the last head began with
		"isLent",         // the copy's memory is its own
	}
	uri := []string{"target", "lentHost", "isPathLent", "isQueryLent", "query", "host"} // the copy has what is lent in memory of its own
	message := slices.Concat(header, uri, []string{
		"stream", "streamSize", "streamWriter", "writer", "raw", "form", "formFiles", "failure", "hasOthers", // bodies that cannot be copied
		"call", "timeout", "userValues", "match", "strayWriters", "owner", // of this use of the request
		"KeepBodyBuffer", "ImmediateHeaderFlush", "StreamBody", "DecodeBody", "OnInterim", // settings of the original
	})
	for name, c := range map[string]struct {
		original, copied any
		leavesOut        []string
	}{
		"Args":           copied((*Args).CopyTo, nil),
		"URI":            copied((*URI).CopyTo, uri),
		"Cookie":         copied(func(c, dst *Cookie) { dst.CopyTo(c) }, nil),
		"RequestHeader":  copied((*RequestHeader).CopyTo, header),
		"ResponseHeader": copied((*ResponseHeader).CopyTo, header),
		"Request":        copied((*Request).CopyTo, message),
		"Response":       copied((*Response).CopyTo, message),
	} {
		got := remains(c.copied)
		for _, path := range remains(c.original) {
			if !slices.Contains(got, path) && !isNamed(path, c.leavesOut) {
				t.Errorf("%s: %s is not copied", name, path)
			}
		}
	}
}

// copied returns a T whose fields are all set, and a copy of it.
func copied[T any](copyTo func(from, to *T), leavesOut []string) (c struct {
	original, copied any
	leavesOut        []string
}) {
	original, dst := new(T), new(T)
	fillAll(reflect.ValueOf(original).Elem(), 0)
	copyTo(original, dst)
	c.original, c.copied, c.leavesOut = original, dst, leavesOut
	return c
}

// filled returns a function that sets every field of a T, calls reset, and
// returns the T.
func filled[T any](reset func(*T)) func() any {
	return func() any {
		v := new(T)
		fillAll(reflect.ValueOf(v).Elem(), 0)
		reset(v)
		return v
	}
}

// fillAll sets v, and all that it contains, to something that is not zero.
func fillAll(v reflect.Value, depth int) {
	v = reachable(v)
	if store := v.Addr().MethodByName("Store"); v.Kind() == reflect.Struct && store.IsValid() {
		fillAtomic(v, store)
		return
	}
	switch at := v.Addr().Interface().(type) {
	case *sync.Mutex, *invariants.Pooled:
		return
	case *field.Table:
		at.KeepNames = true
		at.Add(field.Server, field.Server.Canonical(), []byte("x"))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0), depth)
	case reflect.Array:
		for i := range v.Len() {
			fillAll(v.Index(i), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i), depth)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if depth == 0 {
			fillAll(v.Elem(), depth+1)
		}
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Chan:
		v.Set(reflect.MakeChan(v.Type(), 1))
	case reflect.Interface:
		for _, value := range []any{errors.New("old"), io.NopCloser(nil), io.Discard, &net.TCPAddr{}, &clientConn{}, &http1.Exchange{}, (*servedRequest)(nil)} {
			if reflect.TypeOf(value).Implements(v.Type()) {
				v.Set(reflect.ValueOf(value))
				break
			}
		}
	}
}

// fillAtomic stores something in a variable of package sync/atomic.
func fillAtomic(v reflect.Value, store reflect.Value) {
	switch in := store.Type().In(0); in.Kind() {
	case reflect.Pointer:
		store.Call([]reflect.Value{reflect.New(in.Elem())})
	case reflect.Bool:
		store.Call([]reflect.Value{reflect.ValueOf(true)})
	default:
		store.Call([]reflect.Value{reflect.ValueOf(1).Convert(in)})
	}
}

// reachable returns v as a value that may be set, though its name is not
// exported.
func reachable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// remains returns the paths of all fields that are neither zero nor empty.
func remains(p any) []string {
	var found []string
	visit(reflect.ValueOf(p).Elem(), "", &found)
	slices.Sort(found)
	return slices.Compact(found)
}

func visit(v reflect.Value, path string, found *[]string) {
	switch v.Kind() {
	case reflect.Slice, reflect.String, reflect.Map:
		if v.Len() > 0 {
			*found = append(*found, path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i), strings.TrimPrefix(fmt.Sprint(path, ".", v.Type().Field(i).Name), "."), found)
		}
	case reflect.Array:
		for i := range v.Len() {
			visit(v.Index(i), path, found)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			*found = append(*found, path)
		}
	default:
		if !v.IsZero() {
			*found = append(*found, path)
		}
	}
}
