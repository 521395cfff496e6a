package message

import "bufio"

// HeadRoom returns memory to append a head to that is then written to w: the
// free part of w's buffer, or h.text if that is larger because an earlier head
// did not fit.
func (h *Header) HeadRoom(w *bufio.Writer) []byte {
	if room := w.AvailableBuffer(); cap(room) >= cap(h.text) {
		return room
	}
	return h.text[:0]
}

// WriteHead writes a head that was appended to the memory of HeadRoom.
func (h *Header) WriteHead(w *bufio.Writer, head []byte) error {
	if cap(head) > w.Available() && cap(head) > cap(h.text) {
		h.text = head // reused for the next head
	}
	_, err := w.Write(head)
	return err
}
