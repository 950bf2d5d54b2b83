/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive circular doubly linked list. A head is a link that points to itself. A link that
 * is in no list points to itself too, so that list_remove() is always safe after list_init().
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_link {
	struct list_link *prev;
	struct list_link *next;
};

static inline void list_init(struct list_link *l)
{
	l->prev = l;
	l->next = l;
}

static inline bool list_empty(const struct list_link *head)
{
	return head->next == head;
}

static inline void list_insert_before(struct list_link *at, struct list_link *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

static inline void list_push_back(struct list_link *head, struct list_link *l)
{
	list_insert_before(head, l);
}

static inline void list_push_front(struct list_link *head, struct list_link *l)
{
	list_insert_before(head->next, l);
}

static inline void list_remove(struct list_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#define LIST_FOR_EACH(l, head) for (struct list_link *l = (head)->next; l != (head); l = l->next)
#define LIST_FOR_EACH_SAFE(l, tmp, head)                                                           \
	for (struct list_link *l = (head)->next, *tmp = l->next; l != (head);                      \
	     l = tmp, tmp = l->next)

#endif
