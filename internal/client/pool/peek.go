package pool

import (
	"net"
	"reflect"
)

// quietConn is a connection without a socket that can report whether it is open
// and has no unread bytes. The connections of fasthttputil implement it; Peeker
// calls it.
type quietConn interface{ IsQuiet() bool }

// innermost returns the connection that c wraps, or c itself. c wraps another
// connection if it has a method NetConn, or if it embeds a net.Conn, as the
// connections of counting or logging dialers do.
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

// embedded returns the net.Conn that c, a struct or a pointer to one, embeds;
// nil if there is none.
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
