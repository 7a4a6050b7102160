"""What a score looks like: `gallery` has the images, `measures` finds their neighbours, `page` shows them."""
