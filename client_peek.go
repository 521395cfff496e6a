package sluice

import (
	"net"
	"reflect"
)

// quietConn is a connection without a socket that can tell by itself whether it
// is open and has nothing to be read. Those of fasthttputil implement it.
type quietConn interface{ IsQuiet() bool }

// innermost returns the connection that c is a layer on, or c itself: what has a
// method NetConn, and what embeds a net.Conn, as dialers do that count or log.
func innermost(c net.Conn) net.Conn {
	for {
		var inner net.Conn
		if wrapper, ok := c.(interface{ NetConn() net.Conn }); ok {
			inner = wrapper.NetConn()
		} else {
			inner = embedded(c)
		}
		if inner == nil {
			return c
		}
		c = inner
	}
}

// embedded returns the net.Conn that c, a struct or a pointer to one, embeds.
func embedded(c net.Conn) net.Conn {
	v := reflect.ValueOf(c)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	field, ok := v.Type().FieldByName("Conn")
	if !ok || !field.Anonymous || len(field.Index) != 1 {
		return nil
	}
	inner, _ := v.FieldByIndex(field.Index).Interface().(net.Conn)
	return inner
}
