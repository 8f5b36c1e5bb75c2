// Package desktop shows a notification on the desktop of a user of this machine, by the user's own session bus
// (org.freedesktop.Notifications, Desktop Notifications Specification 1.2).
//
// It owns where that bus is, and the bounds and the escapes of a text that an agent may have had a part in. polisd does
// not speak to the bus of a user and reads nothing below /run/user, which the user can replace by a file system that
// never answers: a child with the rights of the user does, which is polisd's own program. Its time and its answer are
// bounded, and its answer is the word of the user.
//
// It never decides who sees what. It takes no lock.
package desktop
