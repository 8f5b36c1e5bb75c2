// Package desktop shows a notification on the desktop of a user of this machine, by the user's own session bus
// (org.freedesktop.Notifications, Desktop Notifications Specification 1.2).
//
// It owns where that bus is, and the bounds and the escapes of a text that an agent may have had a part in. polisd does
// not speak to the bus of a user and reads nothing below /run/user, which the user can replace by a file system that
// never answers: a child with the rights of the user does, which is polisd's own program. It is waited for 20 seconds at
// most (15, and 5 for its end), also if the user keeps it from ending; then the user gets no other one until it has
// ended (package command). Its answer is bounded, and is the word of the user.
//
// It never decides who sees what. It takes no lock.
package desktop
