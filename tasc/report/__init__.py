"""What all pages share: the template loader, the style, and charts."""
