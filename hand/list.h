/* Doubly linked lists through a member of the element. A list is a `struct list` that is initialised
 * with list_init(); so is an element that is in no list, and list_remove() leaves it so. */
#ifndef HANDSFS_HAND_LIST_H
#define HANDSFS_HAND_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

/* The struct of which `member` is at `ptr`. */
#define container_of(ptr, type, member)                                                            \
    ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* `next_` keeps the walk safe when the body removes `at_`. */
#define list_each(at_, next_, list_)                                                               \
    for (struct list *at_ = (list_)->next, *next_ = at_->next; at_ != (list_);                     \
         at_ = next_, next_ = at_->next)

static inline void list_init(struct list *list)
{
    list->next = list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_insert_before(struct list *at, struct list *element)
{
    element->prev = at->prev;
    element->next = at;
    at->prev->next = element;
    at->prev = element;
}

static inline void list_append(struct list *list, struct list *element)
{
    list_insert_before(list, element);
}

static inline void list_remove(struct list *element)
{
    element->prev->next = element->next;
    element->next->prev = element->prev;
    list_init(element);
}

/* Moves all elements of `from` behind those of `to`. */
static inline void list_take_all(struct list *to, struct list *from)
{
    if (!list_empty(from)) {
        from->next->prev = to->prev;
        to->prev->next = from->next;
        from->prev->next = to;
        to->prev = from->prev;
        list_init(from);
    }
}

#endif
